"""Live replays for a site: simulate the next hours of the queue, and derive expected waits.

A job's run time is the one that its Berth decision predicted; otherwise the run time is estimated
from the past jobs of the job's user in the store.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from berth.plugin.outcomes.accuracy import MOST
from berth.plugin.replay.present import InTheirQueues, PresentQueue
from berth.plugin.scheduler import PresentJob
from berth.plugin.store import DecisionRecord, Store
from berth.plugin.store.records import RunSums
from berth.policies.replay import Settings, Trace
from berth.policies.replay.deciding import Decided
from berth.policies.replay.live import SAMPLES, Foreseen, TotalTimes, foresee, wait_table
from berth.policies.replay.predicted import ForecastColumns
from berth.policies.replay.trace import Floats
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate
from berth.policies.waits import WaitTable
from berth.predictor.core.prediction import Interval

RECENT_S = 2 * 86_400.0
"""Largest age in seconds of ended jobs that are used to estimate their user's run times."""
LAST = 2
"""Number of a user's last run times that are averaged (Tsafrir, Etsion and Feitelson 2007)."""
USUAL = (0.001, 0.10, 1.0)
"""Run time / time limit for users without past jobs: 5th, 50th, 95th percentile (RICC trace)."""
FEW = 10
"""Least number of past jobs for using a user's own percentiles."""
HIDDEN_S = 3_600.0
"""Assumed remaining seconds of hidden jobs, where no visible job runs on nodes of the same kind."""
_Shares = tuple[float, float, float]
HOUR_S = 3_600.0
HORIZONS_H = (1, 4, 24)
_WORK = 30_000
"""Number of jobs x samples that a replay simulates in some seconds without compilation."""
_FEWEST = 8


class DecisionLookup(Protocol):
    """Decisions by their id."""

    def get(self, decision: str, /) -> DecisionRecord | None:
        """Return the decision with this id; None: there is none that the caller may see."""
        ...


class StoreView(Protocol):
    """The part of the store that this user may read: the store itself, or what serves users."""

    @property
    def decisions(self) -> DecisionLookup:
        """Return the stored decisions."""
        ...


class Known(NamedTuple):
    """The expected run times of the jobs, and how many of them Berth predicted."""

    times: TotalTimes
    elsewhere: Mapping[str, Floats]
    """Predicted median seconds by platform, an array over jobs; NaN: no prediction."""
    predicted: int
    """Number of jobs that Berth predicted; the others are estimated from their users' past jobs."""


def expected_times(
    present: PresentQueue, store: StoreView | None, candidates: Sequence[Candidate] = ()
) -> Known:
    """Return the jobs' total run times: predicted by Berth's decisions, else from the users' past
    jobs.

    In the second case the median is the mean of the user's last two run times, and the interval
    comes from the fractions of the time limit that past jobs used. Raises StoreError.
    """
    jobs, queue = present.jobs, present.queue
    limit = queue.trace.limit_s
    limit = np.where(np.isnan(limit), Settings().unlimited_plan_s, limit)
    shares = _shares(jobs, store)
    low, mid, high = (np.array([item[k] for item in shares]) * limit for k in range(3))
    for row, seconds in _by_last(jobs, store, queue.now_s).items():
        mid[row] = min(seconds, limit[row])
    low, high = np.minimum(low, mid), np.maximum(high, mid)
    elsewhere: dict[str, Floats] = {}
    queue_of = {candidate.name: candidate.queue for candidate in candidates}
    predicted = 0
    decided = _decisions_of(jobs, store)
    for row, job in enumerate(jobs):
        ranked = _ranked(decided.get(job.decision or ""))
        in_its_queues = [
            item for item in ranked if queue_of.get(item["candidate"], "") in job.queues
        ]
        if in_its_queues:
            low[row], mid[row], high[row] = in_its_queues[0]["runtime_s"]
            predicted += 1
        for item in ranked:
            column = elsewhere.setdefault(item["platform"], np.full(len(jobs), np.nan))
            column[row] = item["runtime_s"][1]
    return Known(with_hidden(present, TotalTimes(low, mid, high)), elsewhere, predicted)


def with_hidden(present: PresentQueue, times: TotalTimes) -> TotalTimes:
    """Return the times with an end for each hidden job (resources in use by no visible job).

    A hidden job ends with the last visible job on nodes of the same kind.
    """
    queue = present.queue
    hidden = [row for row in range(queue.running) if not present.jobs[row].job_id]
    if not hidden:
        return times
    left = times.at(0.5, queue.elapsed_s, queue.trace.limit_s) - queue.elapsed_s
    counts = [kind.count for kind in present.cluster.kinds]
    kind_of = np.repeat(np.arange(len(counts)), counts)
    longest: dict[int, float] = {}
    for row in range(queue.running):
        if present.jobs[row].job_id:
            for kind in kind_of[queue.units[row]].tolist():
                longest[kind] = max(longest.get(kind, 0.0), float(left[row]))
    columns = [column.copy() for column in (times.low_s, times.mid_s, times.high_s)]
    for column in columns:
        column[hidden] = [
            longest.get(int(kind_of[queue.units[row][0]]), HIDDEN_S) for row in hidden
        ]
    return TotalTimes(*columns)


def _decisions_of(
    jobs: Sequence[PresentJob], store: StoreView | None
) -> Mapping[str, DecisionRecord]:
    """Return, by id, the stored decisions that these jobs refer to."""
    wanted = {job.decision for job in jobs if job.decision is not None}
    if store is None or not wanted:
        return {}
    if isinstance(store, Store):
        return store.decisions.of_ids(wanted)
    records = {decision: store.decisions.get(decision) for decision in wanted}
    return {decision: record for decision, record in records.items() if record is not None}


def _ranked(record: DecisionRecord | None) -> list[Mapping[str, Any]]:
    """Return the decision's candidates with predictions, the chosen one first.

    Empty: the record is missing, chose nothing or cannot be read.
    """
    if record is None or record.chosen is None:
        return []
    try:
        rows = [row for row in json.loads(record.ranked) if row.get("runtime_s")]
        for row in rows:
            row["runtime_s"] = low, mid, high = [float(seconds) for seconds in row["runtime_s"]]
            if not (row["candidate"] and row["platform"] and 0 <= low <= mid <= high):
                return []
    except (ValueError, TypeError, LookupError, AttributeError):
        return []
    return rows


def _by_last(
    jobs: Sequence[PresentJob], store: StoreView | None, now_s: float
) -> Mapping[int, float]:
    """Return, by row of the job, the mean of the last ``LAST`` run times of the job's user."""
    if not isinstance(store, Store):
        return {}
    usual = _last_of_users(store.outcomes.newest(now_s - RECENT_S, now_s + 1.0, MOST))
    return {row: usual[job.user] for row, job in enumerate(jobs) if job.user in usual}


def _last_of_users(ended: Iterable[RunSums]) -> Mapping[str, float]:
    """Return each user's mean of the last ``LAST`` run times; ``ended`` is sorted by end time."""
    times: dict[str, deque[float]] = {}
    for job in ended:
        if job.elapsed_s is not None and job.elapsed_s > 0:
            times.setdefault(job.user, deque(maxlen=LAST)).append(job.elapsed_s)
    return {user: sum(last) / len(last) for user, last in times.items()}


def _shares(jobs: Sequence[PresentJob], store: StoreView | None) -> list[_Shares]:
    """Return the low, middle and high fraction of the time limit that each job is expected to
    use."""
    shares: dict[str, _Shares] = {}
    for user in {job.user for job in jobs}:
        taken = []
        if isinstance(store, Store):
            taken = [
                past.elapsed_s / past.time_limit_s
                for past in store.past_jobs.of_users(user)
                if past.time_limit_s
            ]
        if len(taken) < FEW:
            shares[user] = USUAL
        else:
            low, mid, high = np.clip(np.percentile(taken[-1_000:], (5, 50, 95)), 1e-4, 1.0)
            shares[user] = (float(low), float(mid), float(high))
    return [shares[job.user] for job in jobs]


def draws(jobs: int) -> int:
    """Return the number of samples that can be simulated in some seconds for so many jobs."""
    return int(min(SAMPLES, max(_FEWEST, _WORK // max(jobs, 1))))


def next_hours(
    present: PresentQueue,
    settings: Settings,
    known: Known,
    *,
    policy: PolicySettings | None = None,
    candidates: Sequence[Candidate] = (),
) -> Foreseen:
    """Replay the present queue forward; with a policy, each waiting job is placed by the policy
    now."""
    samples = draws(len(present.jobs))
    if policy is None:
        return foresee(
            present.queue, present.cluster, settings, known.times, samples=samples,
            placing=partial(InTheirQueues, present) if present.listed else None,
        )  # fmt: skip
    offered = [candidate for candidate in candidates if candidate.name in present.partition_of]
    spread = float(np.median(known.times.high_s / np.maximum(known.times.mid_s, 1e-3)))
    listed = policy.model_copy(update={"list_queues": False})

    def placing(drawn: Trace) -> Decided:
        factor = drawn.runtime_s / np.maximum(known.times.mid_s, 1e-3)
        there = {name: column * factor for name, column in known.elsewhere.items()}
        predictions = ForecastColumns(known.elsewhere, offered, spread=spread)
        return Decided(
            offered, present.partition_of, listed, predictions,
            trace=replace(drawn, runtime_on=there), cluster=present.cluster,
        )  # fmt: skip

    return foresee(
        present.queue, present.cluster, settings, known.times, samples=samples,
        placing=placing,
    )  # fmt: skip


def wait_tables(
    foreseen: Foreseen, present: PresentQueue, candidates: Sequence[Candidate]
) -> dict[str, WaitTable]:
    """Return a table of expected waits by candidate name, for candidates with a working node."""
    return {
        candidate.name: wait_table(
            foreseen, present.queue.now_s, present.partition_of[candidate.name],
            gpus=candidate.is_gpu, cores_per_gpu=candidate.translation.cpus_per_gpu or 1,
        )
        for candidate in candidates
        if candidate.name in present.partition_of
    }  # fmt: skip


def figures(foreseen: Foreseen, present: PresentQueue) -> dict[str, Interval]:
    """Return figures of the jobs that wait now, over the samples: start times in seconds from now,
    and numbers of jobs."""
    now_s, first = present.queue.now_s, present.queue.running
    rows: dict[str, list[float]] = {}
    for replayed in foreseen.replays:
        start = replayed.start_s[first:] - now_s
        began = start[np.isfinite(start)]
        rows.setdefault("mean_start_s", []).append(float(began.mean()) if len(began) else 0.0)
        rows.setdefault("last_start_s", []).append(float(began.max(initial=0.0)))
        for hours in HORIZONS_H:
            count = float(np.sum(began <= hours * HOUR_S))
            rows.setdefault(f"started_in_{hours}_h", []).append(count)
        moved = float(np.sum(replayed.moved[first:]))
        rows.setdefault("moved", []).append(moved)
    return {
        name: Interval(*(float(v) for v in np.percentile(values, (5, 50, 95))))
        for name, values in rows.items()
    }
