"""Replays side by side: schedulers, clusters and policies, each once or over several seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from berth.plugin.replay.clusters import SiteCluster
from berth.plugin.replay.truth import Truth
from berth.policies.replay import Cluster, Metrics, Replayed, Settings, Trace, metrics, replay
from berth.policies.replay.cluster import Failure, Reservation, random_failures
from berth.policies.replay.deciding import Decided
from berth.policies.replay.metrics import over_seeds
from berth.policies.settings import PolicySettings


@dataclass(frozen=True)
class Events:
    """What happens to nodes."""

    failures: tuple[Failure, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    mean_s: float | None = None
    """Mean time between random failures of a node; None: only those given."""
    repair_s: float = 0.0

    def on(self, cluster: Cluster, trace: Trace, seed: int) -> Cluster:
        """The cluster with them. Raises UsageError where it lacks a node."""
        failures = self.failures
        if self.mean_s is not None and len(trace):
            failures += random_failures(
                cluster, mean_s=self.mean_s, repair_s=self.repair_s, seed=seed,
                begin_s=float(trace.submit_s[0]), end_s=float(trace.submit_s[-1]),
            )  # fmt: skip
        if not failures and not self.reservations:
            return cluster
        return replace(cluster, pooled=False, failures=failures, reservations=self.reservations)


@dataclass(frozen=True)
class Variant:
    """A cluster under a scheduler, and a policy if one places the jobs."""

    name: str
    place: SiteCluster
    settings: Settings
    policy: PolicySettings | None = None


@dataclass(frozen=True)
class Column:
    """A variant's replays, which differ by their seed only, and their figures."""

    name: str
    replays: tuple[Replayed, ...]
    metrics: Metrics
    failure: str = ""
    """On which job the policy failed first, and how; empty: on none."""


def columns_of(
    trace: Trace, variants: Sequence[Variant], truth: Truth, events: Events, seeds: int
) -> Iterator[Column]:
    """One after the other."""
    for one in variants:
        random = events.mean_s is not None or (
            one.policy is not None and (truth.log_error > 0 or truth.forecasts is not None)
        )
        pairs = [_replayed(trace, one, truth, events, n) for n in range(seeds if random else 1)]
        done = tuple(each for each, _ in pairs)
        found = [metrics(each, seed=seed) for seed, each in enumerate(done)]
        failure = next((words for _, words in pairs if words), "")
        yield Column(one.name, done, over_seeds(found), failure)


def _replayed(
    trace: Trace, one: Variant, truth: Truth, events: Events, seed: int
) -> tuple[Replayed, str]:
    """With how the policy failed first."""
    cluster = events.on(one.place.cluster, trace, seed)
    if one.policy is None:
        return replay(trace, cluster, one.settings), ""
    candidates = one.place.candidates
    true, predictions = truth.drawn(candidates, seed)
    decided = Decided(
        candidates, one.place.partition_of, replace(one.policy, list_queues=True), predictions,
        trace=true, cluster=cluster, forgiving=True,
    )  # fmt: skip
    found = replay(true, cluster, one.settings, decided)
    if not decided.failed:
        return found, ""
    counts = replace(found.counts, policy_failed=len(decided.failed))
    return replace(found, counts=counts), next(iter(decided.failed.values()))
