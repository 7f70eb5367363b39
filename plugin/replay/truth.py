"""Replay several settings side by side, with the run times that jobs would have on other platforms.

A job's run time on another platform (the "truth" of a replay) comes from a table of times, from
past jobs of the same kind, from outcomes of Berth's own jobs, or from Berth's prediction with its
error. A job without any such time stays where it ran, and is counted.
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
from berth.plugin.store.records import PlacedRun
from berth.policies.replay import Cluster, Metrics, Replayed, Settings, Trace, metrics, replay
from berth.policies.replay.deciding import Decided, own_platforms
from berth.policies.replay.metrics import over_seeds
from berth.policies.replay.predicted import ForecastColumns, TraceForecasts
from berth.policies.replay.trace import Floats
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate
from berth.predictor.core.intervals import NORMAL_90

TIMES, HISTORY, OUTCOMES, FORECASTS = "times", "history", "outcomes", "forecasts"
SOURCES = (TIMES, HISTORY, OUTCOMES, FORECASTS)
FEWEST = 2
"""Fewest past runs of equal jobs on a platform that give a run time there."""
DAY_S = 86_400.0


class Forecasts(NamedTuple):
    """Berth's predictions at its decisions, by platform: an array over jobs; NaN: no prediction."""

    low_s: Mapping[str, Floats]
    mid_s: Mapping[str, Floats]
    high_s: Mapping[str, Floats]


@dataclass(frozen=True)
class Truth:
    """Run times of a trace's jobs on other platforms."""

    trace: Trace
    """The jobs, with ``runtime_on`` from all sources of measured times; NaN: unknown."""
    forecasts: Forecasts | None = None
    """Berth's predictions, from whose intervals true times are drawn; None: not used."""
    known: Mapping[str, int] = field(default_factory=dict)
    """For each source, the number of jobs with a run time on at least one platform."""

    def drawn(self, candidates: Collection[Candidate], seed: int) -> tuple[Trace, TraceForecasts]:
        """Draw the trace's true run times once; return the trace and the predictions for
        policies."""
        true = dict(sorted(self.trace.runtime_on.items()))
        expected = dict(true)
        if self.forecasts is None:
            return self.trace, ForecastColumns(expected, candidates, spread=1.0)
        dice = np.random.default_rng(seed)
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
        spread = max(1.0, float(np.median(wide)))
        return trace, ForecastColumns(expected, candidates, spread=spread)


def truth_of(
    trace: Trace,
    cluster: Cluster,
    sources: Sequence[str],
    *,
    store: Store | None,
) -> Truth:
    """Return the run times from ``sources``; the first source that has a time takes precedence.

    Raises StoreError.
    """
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
    return Truth(replace(trace, runtime_on=columns), forecasts, known)


def of_history(trace: Trace, cluster: Cluster) -> dict[str, Floats]:
    """Return median run times by platform, over jobs with the same user, name, cores and GPUs.

    On the platform where a job ran, it is the job's own time.
    """
    platforms = own_platforms(trace, cluster)
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
    """Return geometric mean run times by platform, over jobs with the same user and workload.

    Raises StoreError.
    """
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
    """Return each job's predictions at Berth's decision, by platform; None: no job has any.

    Raises StoreError.
    """
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


def _outcomes(trace: Trace, store: Store) -> Iterable[PlacedRun]:
    if not len(trace):
        return ()
    first_s = float(trace.submit_s[0])
    return store.outcomes.between(first_s, float(trace.submit_s[-1]) + 60 * DAY_S)


def _count(columns: Mapping[str, Floats], jobs: int) -> int:
    """Return the number of jobs with a time on at least one platform."""
    is_known = np.zeros(jobs, bool)
    for column in columns.values():
        is_known |= ~np.isnan(column)
    return int(is_known.sum())


@dataclass(frozen=True)
class Variant:
    """One setting to replay: a cluster, a scheduler, and the policy that places jobs, if any."""

    name: str
    site_cluster: SiteCluster
    settings: Settings
    policy: PolicySettings | None = None


@dataclass(frozen=True)
class VariantReplays:
    """The replays of one variant, which differ only in their random seed, with their metrics."""

    name: str
    replays: tuple[Replayed, ...]
    metrics: Metrics
    failure: str = ""
    """The job on which the policy failed first, and the error; empty: the policy never failed."""


def replays_of(
    trace: Trace, variants: Sequence[Variant], truth: Truth, seeds: int
) -> Iterator[VariantReplays]:
    """Yield the replays of each variant, one variant after the other."""
    for variant in variants:
        random = variant.policy is not None and truth.forecasts is not None
        pairs = [_replayed(trace, variant, truth, n) for n in range(seeds if random else 1)]
        done = tuple(each for each, _ in pairs)
        figures = [metrics(each, seed=seed) for seed, each in enumerate(done)]
        failure = next((words for _, words in pairs if words), "")
        yield VariantReplays(variant.name, done, over_seeds(figures), failure)


def _replayed(trace: Trace, variant: Variant, truth: Truth, seed: int) -> tuple[Replayed, str]:
    """Replay one variant once; also return the policy's first failure, empty if there was none."""
    cluster = variant.site_cluster.cluster
    if variant.policy is None:
        return replay(trace, cluster, variant.settings), ""
    candidates = variant.site_cluster.candidates
    true, predictions = truth.drawn(candidates, seed)
    decided = Decided(
        candidates, variant.site_cluster.partition_of,
        variant.policy.model_copy(update={"list_queues": True}),
        predictions, trace=true, cluster=cluster, forgiving=True,
    )  # fmt: skip
    replayed = replay(true, cluster, variant.settings, decided)
    if not decided.failed:
        return replayed, ""
    counts = replace(replayed.counts, policy_failed=len(decided.failed))
    return replace(replayed, counts=counts), next(iter(decided.failed.values()))
