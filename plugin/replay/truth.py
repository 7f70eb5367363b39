"""Replays side by side, and the truth in them: how long jobs take elsewhere, and what is predicted.

The truth is a table of times, past jobs of the same kind, what Berth's own jobs took, or what Berth
predicted with its error. A job of which none of them knows stays where it was and is counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from berth.plugin.replay.clusters import SiteCluster
from berth.plugin.store import Store
from berth.plugin.store.records import OutcomeRecord
from berth.policies.replay import Cluster, Metrics, Replayed, Settings, Trace, metrics, replay
from berth.policies.replay.cluster import Failure, Reservation, random_failures
from berth.policies.replay.deciding import Decided
from berth.policies.replay.metrics import over_seeds
from berth.policies.replay.predicted import Columns, Predictions
from berth.policies.replay.trace import Floats
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate
from berth.predictor.core.intervals import NORMAL_90

TIMES, HISTORY, OUTCOMES, FORECASTS = "times", "history", "outcomes", "forecasts"
SOURCES = (TIMES, HISTORY, OUTCOMES, FORECASTS)
FEWEST = 2
"""Past runs of a kind of job on a platform from which its time there is taken."""
DAY_S = 86_400.0


class Forecasts(NamedTuple):
    """[jobs] by platform: what Berth predicted when it decided; NaN: nothing."""

    low_s: Mapping[str, Floats]
    mid_s: Mapping[str, Floats]
    high_s: Mapping[str, Floats]


@dataclass(frozen=True)
class Truth:
    """Times elsewhere of the jobs of a trace."""

    trace: Trace
    """The jobs, with ``runtime_on`` from all sources that are certain."""
    log_error: float = 0.0
    """Standard deviation (log) of predictions that are drawn, where Berth made none itself."""
    forecasts: Forecasts | None = None
    """What Berth predicted, where the truth is drawn from it."""
    known: Mapping[str, int] = field(default_factory=dict)
    """Jobs of which a source knows a time on another platform, by source."""

    def drawn(self, candidates: Collection[Candidate], seed: int) -> tuple[Trace, Predictions]:
        """Draw the trace as it truly is once, and what policies know of it."""
        dice = np.random.default_rng(seed)
        columns = dict(sorted(self.trace.runtime_on.items()))
        draws = dice.standard_normal((len(self.trace), len(columns)))
        expected = {
            name: column * np.exp(self.log_error * draws[:, n])
            for n, (name, column) in enumerate(columns.items())
        }
        spread = math.exp(NORMAL_90 * self.log_error)
        if self.forecasts is None:
            return self.trace, Columns(expected, candidates, spread=spread)
        true = dict(columns)
        for name in sorted(self.forecasts.mid_s):
            low, mid, high = (bound[name] for bound in self.forecasts)
            z = dice.standard_normal(len(self.trace))
            width = np.where(z < 0, np.log(mid / low), np.log(high / mid)) / NORMAL_90
            drawn_s = mid * np.exp(z * width)
            before = true.get(name, np.full(len(mid), np.nan))
            true[name] = np.where(np.isnan(before), drawn_s, before)
            expected[name] = np.where(np.isnan(mid), expected.get(name, mid), mid)
        wide = [np.nanmedian(self.forecasts.high_s[n] / m) for n, m in self.forecasts.mid_s.items()]
        trace = replace(self.trace, runtime_on=true)
        return trace, Columns(expected, candidates, spread=max(spread, float(np.median(wide))))


def truth_of(
    trace: Trace,
    cluster: Cluster,
    sources: Sequence[str],
    *,
    store: Store | None,
    log_error: float,
) -> Truth:
    """Join the ``sources``; the first that knows a time counts. Raises StoreError."""
    columns: dict[str, Floats] = {}
    known: dict[str, int] = {}
    forecasts = None
    for source in sources:
        if source == FORECASTS:
            forecasts = forecasts_of(trace, store) if store is not None else None
            known[source] = 0 if forecasts is None else _count(forecasts.mid_s, len(trace))
            continue
        if source == TIMES:
            known_times: Mapping[str, Floats] = trace.runtime_on
        elif source == HISTORY:
            known_times = of_history(trace, cluster)
        else:
            known_times = {} if store is None else of_outcomes(trace, store)
        known[source] = _count(known_times, len(trace))
        for name, column in known_times.items():
            before = columns.get(name)
            columns[name] = column if before is None else np.where(np.isnan(before), column, before)
    return Truth(replace(trace, runtime_on=columns), log_error, forecasts, known)


def of_history(trace: Trace, cluster: Cluster) -> dict[str, Floats]:
    """Return the median run time of jobs of the same user, name, cores and GPUs that ran there."""
    platforms = _platforms(trace, cluster)
    kinds = [
        (int(user), name, int(cores), int(gpus))
        for user, name, cores, gpus in zip(
            trace.user, trace.names or ("",) * len(trace), trace.cores, trace.gpus, strict=True
        )
    ]
    runs: dict[tuple[object, str], list[float]] = {}
    for kind, platform, run_s in zip(kinds, platforms, trace.runtime_s.tolist(), strict=True):
        if platform and kind[1] and run_s > 0:
            runs.setdefault((kind, platform), []).append(run_s)
    usual = {key: float(np.median(times)) for key, times in runs.items() if len(times) >= FEWEST}
    columns = {}
    for platform in sorted({name for name in platforms if name}):
        column = np.array([usual.get((kind, platform), math.nan) for kind in kinds])
        at_home = np.array([name == platform for name in platforms])
        columns[platform] = np.where(at_home, trace.runtime_s, column)
    return columns


def of_outcomes(trace: Trace, store: Store) -> dict[str, Floats]:
    """Return the geometric mean of what jobs of the same user and workload took. Raises
    StoreError."""
    records = list(_outcomes(trace, store))
    program = {
        outcome.job_id: (outcome.user, outcome.workload) for outcome in records if outcome.workload
    }
    runs: dict[str, dict[tuple[str, str | None], list[float]]] = {}
    for outcome in records:
        if (
            outcome.platform
            and outcome.workload
            and outcome.elapsed_s
            and outcome.state == "completed"
        ):
            by_workload = runs.setdefault(outcome.platform, {})
            by_workload.setdefault((outcome.user, outcome.workload), []).append(
                math.log(outcome.elapsed_s)
            )
    columns = {}
    for platform, taken in sorted(runs.items()):
        usual = {key: math.exp(sum(logs) / len(logs)) for key, logs in taken.items()}
        keys = (program.get(job) for job in trace.ids)
        columns[platform] = np.array(
            [math.nan if k is None else usual.get(k, math.nan) for k in keys]
        )
    return columns


def forecasts_of(trace: Trace, store: Store) -> Forecasts | None:
    """Return what was predicted for each candidate when Berth decided. Raises StoreError."""
    decision = {item.job_id: item.decision for item in _outcomes(trace, store) if item.decision}
    records = store.decisions.of_ids({d for d in decision.values() if d})
    columns: list[dict[str, Floats]] = [{}, {}, {}]
    for row, job in enumerate(trace.ids):
        record = records.get(decision.get(job) or "")
        for item in [] if record is None else json.loads(record.ranked):
            times = item.get("runtime_s")
            if times and all(isinstance(t, int | float) and t > 0 for t in times):
                for column, value in zip(columns, times, strict=True):
                    empty = np.full(len(trace), np.nan)
                    column.setdefault(str(item["platform"]), empty)[row] = value
    return Forecasts(*columns) if columns[0] else None


def _outcomes(trace: Trace, store: Store) -> Iterable[OutcomeRecord]:
    if not len(trace):
        return ()
    first_s = float(trace.submit_s[0])
    return store.outcomes.between(first_s, float(trace.submit_s[-1]) + 60 * DAY_S)


def _platforms(trace: Trace, cluster: Cluster) -> list[str]:
    """Return for each job where it ran; empty: its partition has several platforms, or is not
    known."""
    by_queue = {}
    for index, part in enumerate(cluster.partitions):
        platforms = {cluster.kind(name).platform or name for name in part.kinds}
        by_queue[part.name] = cluster.platform_of(index) if len(platforms) == 1 else ""
    names = [by_queue.get(queue, "") for queue in trace.queues]
    return [names[queue] if queue >= 0 else "" for queue in trace.queue.tolist()]


def _count(columns: Mapping[str, Floats], jobs: int) -> int:
    """Count the jobs with a time on at least one platform."""
    is_known = np.zeros(jobs, bool)
    for column in columns.values():
        is_known |= ~np.isnan(column)
    return int(is_known.sum())


@dataclass(frozen=True)
class Events:
    """What happens to nodes."""

    failures: tuple[Failure, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    mean_s: float | None = None
    """Mean time between random failures of a node; None: only those given."""
    repair_s: float = 0.0

    def on(self, cluster: Cluster, trace: Trace, seed: int) -> Cluster:
        """Return the cluster with these events. Raises UsageError where it lacks a node."""
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
    site_cluster: SiteCluster
    settings: Settings
    policy: PolicySettings | None = None


@dataclass(frozen=True)
class VariantReplays:
    """A variant's replays, which differ by their seed only, and their figures."""

    name: str
    replays: tuple[Replayed, ...]
    metrics: Metrics
    failure: str = ""
    """On which job the policy failed first, and how; empty: on none."""


def replays_of(
    trace: Trace, variants: Sequence[Variant], truth: Truth, events: Events, seeds: int
) -> Iterator[VariantReplays]:
    """Replay the variants one after the other."""
    for variant in variants:
        random = events.mean_s is not None or (
            variant.policy is not None and (truth.log_error > 0 or truth.forecasts is not None)
        )
        pairs = [_replayed(trace, variant, truth, events, n) for n in range(seeds if random else 1)]
        done = tuple(each for each, _ in pairs)
        figures = [metrics(each, seed=seed) for seed, each in enumerate(done)]
        failure = next((words for _, words in pairs if words), "")
        yield VariantReplays(variant.name, done, over_seeds(figures), failure)


def _replayed(
    trace: Trace, variant: Variant, truth: Truth, events: Events, seed: int
) -> tuple[Replayed, str]:
    """Replay one variant; also return how the policy failed first."""
    cluster = events.on(variant.site_cluster.cluster, trace, seed)
    if variant.policy is None:
        return replay(trace, cluster, variant.settings), ""
    candidates = variant.site_cluster.candidates
    true, predictions = truth.drawn(candidates, seed)
    decided = Decided(
        candidates, variant.site_cluster.partition_of, replace(variant.policy, list_queues=True),
        predictions, trace=true, cluster=cluster, forgiving=True,
    )  # fmt: skip
    replayed = replay(true, cluster, variant.settings, decided)
    if not decided.failed:
        return replayed, ""
    counts = replace(replayed.counts, policy_failed=len(decided.failed))
    return replace(replayed, counts=counts), next(iter(decided.failed.values()))
