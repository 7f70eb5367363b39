"""Estimates, without control jobs, the run time that placements saved or cost.

Of a job's two run times, the one where it ran is measured and the other is predicted. Predictions
for a candidate are corrected by the mean log ratio of real to predicted time of jobs that ran
there; the remaining error is modelled as one factor per workload. Jobs are moved because their
predicted time elsewhere is long, so predictions that are too long are over-represented; therefore
the log ratios are shrunk towards no gain, by the share of their variance that the predictions'
errors explain (empirical Bayes; Efron, *Large-Scale Inference*, chapter 1). A common bias of the
predictions can still look like a gain, so the interval always includes no gain: only control jobs
measure one (``measured_gain``).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from berth.pilot.errors import UsageError
from berth.pilot.progress import steps
from berth.plugin.outcomes.accuracy import real_over_predicted
from berth.plugin.outcomes.measured_gain import MeasuredGain, measured_gains
from berth.plugin.store.records import DecisionRanking, DecisionRecord, PlacedRun, RunSums
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import NORMAL_90

if TYPE_CHECKING:
    from berth.plugin.site.site import Site
    from berth.plugin.store import Store

MOST = 10_000
"""Maximum number of jobs compared, the newest ones: each decision's ranking must be read."""
DRAWS = 1_000
FEWEST_WORKLOADS = 3
"""Least number of workloads from which intervals and corrections are computed."""
_BETWEEN = (0.05, 0.95)


@dataclass(frozen=True, slots=True)
class Pair:
    """One job: its measured run time where it ran, and its predicted run time for another
    candidate."""

    workload: str
    real_s: float
    other_s: float
    """Predicted run time for the other candidate (s), uncorrected."""
    deviation: float
    """Standard deviation of the logarithm of ``other_s``."""
    candidate: str
    """Name of the other candidate."""


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of one group of jobs. Times in seconds; intervals at 90 %, None: too few
    workloads."""

    group: str
    """``placed``: jobs that Berth moved, compared with the other candidate; ``kept``: jobs that
    stayed, compared with the candidate that Berth would have chosen."""
    jobs: int
    programs: int
    real_s: float
    other_s: float
    saved_s: float
    """The other candidate's corrected and shrunk predicted time less the real time, summed over
    the jobs (s)."""
    saved_interval_s: tuple[float, float] | None
    speedup: float
    """The other candidate's time over the real time: geometric mean in which all workloads weigh
    the same."""
    speedup_interval: tuple[float, float] | None
    corrections: Mapping[str, float]
    """Factors by which predictions for the other candidates were corrected, by candidate."""


@dataclass(frozen=True, slots=True)
class Gains:
    """The gains of all groups of jobs, and counts of jobs that could not be compared."""

    groups: tuple[Gain, ...]
    ended: int
    not_completed: int
    """Number of placed jobs that did not complete; the figures exclude their cost."""
    not_comparable: int
    """Number of completed jobs without a prediction for the other candidate."""
    grounds: Mapping[str, int] = field(default_factory=dict)
    """Number of finished jobs by what their decision was based on (``policies.codes.Ground``)."""


def gains(
    outcomes: Iterable[PlacedRun | RunSums],
    decisions: Mapping[str, DecisionRecord | DecisionRanking],
    against: Collection[str],
    *,
    seed: int = 0,
) -> Gains:
    """Return the gains against the candidates named in ``against``; for each placed job, the
    first of them with a prediction is used."""
    placed: list[Pair] = []
    unmoved: list[Pair] = []
    ended = failed = not_comparable = 0
    grounds: Counter[str] = Counter()
    real: dict[str, dict[str, list[float]]] = {}
    for outcome in outcomes:
        decision = decisions.get(outcome.decision or "")
        if decision is None or decision.chosen is None:
            continue
        if decision.ground is not None:
            grounds[decision.ground] += 1
        if outcome.workload is None:
            continue
        ended += 1
        time_ratio = real_over_predicted(outcome)
        if time_ratio is not None and outcome.candidate is not None:
            by_workload = real.setdefault(outcome.candidate, {})
            by_workload.setdefault(outcome.workload, []).append(math.log(time_ratio))
        moved = decision.action == "edit"
        if outcome.state != "completed" or not outcome.elapsed_s or outcome.candidate is None:
            failed += moved and outcome.state != "completed"
            continue
        names = against if moved else (decision.chosen,)
        pair = _pair(outcome, decision, names)
        if pair is None:
            not_comparable += outcome.candidate not in names
        else:
            (placed if moved else unmoved).append(pair)
    corrections = {candidate: _mean_of(by) for candidate, by in real.items()}
    return Gains(
        tuple(
            _gain(group, pairs, corrections, seed)
            for group, pairs in (("placed", placed), ("kept", unmoved))
            if pairs
        ),
        ended,
        failed,
        not_comparable,
        dict(grounds),
    )


def _pair(
    outcome: PlacedRun | RunSums,
    decision: DecisionRecord | DecisionRanking,
    names: Collection[str],
) -> Pair | None:
    """Return the job's real time with the prediction for the other candidate; None: the job ran
    there, or there is no prediction."""
    if outcome.candidate in names:
        return None
    try:
        rows: list[Mapping[str, Any]] = json.loads(decision.ranked)
        by_name = {row["candidate"]: row for row in rows if row.get("runtime_s")}
        other = next((name for name in names if name in by_name), None)
        if other is None:
            return None
        low, mid, high = (float(bound) for bound in by_name[other]["runtime_s"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    if not 0 < low <= mid <= high or not outcome.elapsed_s:
        return None
    deviation = math.log(high / low) / 2 / NORMAL_90
    return Pair(outcome.workload or "", outcome.elapsed_s, mid, deviation, other)


@dataclass(frozen=True, slots=True)
class _Correction:
    """Mean correction of log predictions for one candidate."""

    mean: float = 0.0
    error: float = 0.0
    """Standard error of ``mean``."""


def _mean_of(by_workload: Mapping[str, list[float]]) -> _Correction:
    """Return the mean log of real over predicted time, all workloads weighing the same; zero
    below ``FEWEST_WORKLOADS`` workloads."""
    if len(by_workload) < FEWEST_WORKLOADS:
        return _Correction()
    means = np.array([np.mean(logs) for logs in by_workload.values()])
    return _Correction(float(means.mean()), float(means.std(ddof=1) / math.sqrt(len(means))))


def _gain(group: str, pairs: list[Pair], corrections: Mapping[str, _Correction], seed: int) -> Gain:
    names, workload_index = np.unique([pair.workload for pair in pairs], return_inverse=True)
    places, candidate_index = np.unique([pair.candidate for pair in pairs], return_inverse=True)
    candidates = places.tolist()
    own_corrections = [corrections.get(name, _Correction()) for name in candidates]
    shift, error = np.array([(c.mean, c.error) for c in own_corrections]).T
    real_s = np.array([pair.real_s for pair in pairs])
    log_other = np.log([pair.other_s for pair in pairs]) + shift[candidate_index]
    deviation = np.array([pair.deviation for pair in pairs])
    jobs_of_workload = np.bincount(workload_index)
    log_speedup = log_other - np.log(real_s)
    by_workload = np.bincount(workload_index, log_speedup) / jobs_of_workload
    kept = _kept_share(by_workload, float(np.mean(deviation**2)))
    log_other = np.log(real_s) + kept * log_speedup
    log_speedup, deviation = kept * log_speedup, math.sqrt(kept) * deviation
    saved, speedups = [], []
    generator = np.random.default_rng(seed)
    for _ in steps("draws of workloads", range(DRAWS if len(names) >= FEWEST_WORKLOADS else 0)):
        times = generator.multinomial(len(names), np.full(len(names), 1 / len(names)))
        wrong = generator.standard_normal(len(names))[workload_index] * deviation
        wrong = wrong + (generator.standard_normal(len(candidates)) * error)[candidate_index]
        weight = times[workload_index]
        saved.append(float((weight * (np.exp(log_other + wrong) - real_s)).sum()))
        per_job = weight / jobs_of_workload[workload_index]
        speedups.append(float((per_job * (log_speedup + wrong)).sum() / times.sum()))
    weights = 1.0 / jobs_of_workload[workload_index]
    return Gain(
        group=group,
        jobs=len(pairs),
        programs=len(names),
        real_s=float(real_s.sum()),
        other_s=float(np.exp(log_other).sum()),
        saved_s=float((np.exp(log_other) - real_s).sum()),
        saved_interval_s=_with(0.0, _interval(saved)),
        speedup=math.exp(float((weights * log_speedup).sum() / len(names))),
        speedup_interval=_with(1.0, _interval([math.exp(speedup) for speedup in speedups])),
        corrections={
            name: math.exp(c.mean) for name, c in zip(candidates, own_corrections, strict=True)
        },
    )


def _kept_share(log_speedups: Floats, error_variance: float) -> float:
    """Return the share of the workloads' log speedups that is not explained by the variance of the
    predictions' errors."""
    variance = float(np.mean(log_speedups**2))
    return max(0.0, variance - error_variance) / variance if variance > 0 else 0.0


def _with(no_gain: float, interval: tuple[float, float] | None) -> tuple[float, float] | None:
    """Return the interval extended to ``no_gain``."""
    return interval and (min(interval[0], no_gain), max(interval[1], no_gain))


def _interval(drawn: list[float]) -> tuple[float, float] | None:
    if not drawn:
        return None
    low, high = np.quantile(np.array(drawn), _BETWEEN)
    return float(low), float(high)


def gains_of(
    store: Store, ended: Sequence[RunSums], site: Site | None, against: str | None
) -> tuple[list[MeasuredGain], Gains]:
    """Return the measured and the estimated gains of the newest ``MOST`` jobs.

    ``against``: the candidate to compare with; None: the candidates of the reference partition.
    Raises UsageError where there is no candidate to compare with.
    """
    newest = ended[-MOST:]
    decisions = store.decisions.rankings({o.decision for o in newest if o.decision})
    measured = measured_gains(newest, decisions, () if site is None else site.candidates)
    names = (against,) if against is not None else reference_names(site)
    if not names and not measured:
        more = "or a site file" if site is None else "or name site.reference_partition in the file"
        raise UsageError(
            "there is no place to compare with", hint=f"give --against CANDIDATE, {more}"
        )
    if against is not None and site is not None:
        known = [candidate.name for candidate in site.candidates]
        if against not in known:
            raise UsageError(
                f"the site has no candidate {against!r}", hint=f"there are: {', '.join(known)}"
            )
    return measured, gains(newest, decisions, names)


def reference_names(site: Site | None) -> tuple[str, ...]:
    """Return the candidates of the site's reference partition, where jobs run without a
    prediction."""
    if site is None or site.reference_queue is None:
        return ()
    return tuple(c.name for c in site.candidates if c.queue == site.reference_queue)
