"""When waiting jobs start: the live replay beside an estimate by the users' limits, on RICC.

The trace is replayed under EASY on its 8,192 cores; that is the truth. At random moments the queue
as it stands is handed to ``policies.replay.live`` with run times as the evaluated predictor of past
jobs knew them, and to a plan in which every job takes all of its limit, in order, each with a
reservation: what ``squeue --start`` shows. Jobs that are submitted later are known to neither.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from berth.policies.replay import Backfill, Settings, Trace, one_pool, replay, trace_of
from berth.policies.replay.columns import Floats, Ints
from berth.policies.replay.live import Queue, Times, foresee
from berth.predictor.learning.history import RunTimePredictor
from lab.datasets import ricc
from lab.experiments.options import Options
from lab.ground.report import Report, Section
from lab.history.replay import replay as predictions

CORES = 8_192
FOLDS = (("calibration", 50_000, 70_000), ("held out", 70_000, 90_000))
"""Rows of the trace; the predictor's weights are of those before."""
MOMENTS = 40
OF_EACH = 8
"""Waiting jobs looked at in a moment."""
SAMPLES = 20
LEAST_WAIT_S = 60.0


HEADER = ("jobs", "method", "starts", "median error s", "mean error s", "in 90 %", "width s")


class Row(NamedTuple):
    """Errors of one method, in seconds."""

    jobs: str
    method: str
    starts: int
    median_abs_error_s: float
    mean_abs_error_s: float
    coverage: float = float("nan")
    median_width_s: float = float("nan")

    def shown(self) -> tuple[str, ...]:
        """In the order of the header."""
        errors = (self.median_abs_error_s, self.mean_abs_error_s)
        shown = [f"{error:,.0f}" for error in errors]
        if np.isfinite(self.coverage):
            shown += [f"{self.coverage:.1%}", f"{self.median_width_s:,.0f}"]
        return (self.jobs, self.method, str(self.starts), *shown, *("-",) * (4 - len(shown)))


@dataclass(frozen=True)
class _Fold:
    """[jobs] a replayed part of the trace."""

    submit_s: Floats
    start_s: Floats
    end_s: Floats
    cores: Ints
    limit_s: Floats
    times: Times


def evaluate(options: Options) -> Report:
    """Both folds."""
    rows = [
        row
        for name, begin, end in FOLDS
        for row in _rows(name, _replayed(begin, end), options.seed)
    ]
    return Report(
        "Starts of waiting jobs: RICC under EASY",
        (
            f"{MOMENTS} moments of jobs that wait {LEAST_WAIT_S:g} s or longer, up to {OF_EACH} "
            f"jobs each, {SAMPLES} draws.",
        ),
        (Section("Errors of the start", HEADER, [row.shown() for row in rows]),),
        {"rows": rows},
    )


def _replayed(begin: int, end: int) -> _Fold:
    jobs = ricc.trace()[np.arange(begin, end)]
    trace = trace_of(
        jobs.submit_s, jobs.runtime_s, jobs.cores, limit_s=jobs.request_s, queues=("all",)
    )
    found = replay(trace, one_pool(CORES), Settings(Backfill.EASY))
    # What the predictor learns from is what happened in the replay.
    there = replace(jobs, start_s=found.start_s, runtime_s=found.end_s - found.start_s)
    known = predictions(there, RunTimePredictor())
    times = Times(known.low_s, known.mid_s, known.high_s)
    return _Fold(trace.submit_s, found.start_s, found.end_s, trace.cores, trace.limit_s, times)


def _rows(name: str, fold: _Fold, seed: int) -> list[Row]:
    rng = np.random.default_rng(seed)
    wait = fold.start_s - fold.submit_s
    waited = np.flatnonzero(wait >= LEAST_WAIT_S)
    true, low, mid, high, plan = ([] for _ in range(5))  # type: ignore[var-annotated]
    for job in rng.choice(waited, MOMENTS):
        now_s = float(fold.submit_s[job] + rng.uniform(0.0, 0.98) * wait[job])
        queue, rows, times = _queue(fold, now_s)
        found = foresee(
            queue, one_pool(CORES), Settings(Backfill.EASY, compiled=True), times,
            samples=SAMPLES, seed=int(job),
        )  # fmt: skip
        limits = by_limits(queue)
        chosen = rng.choice(len(limits), min(OF_EACH, len(limits)), replace=False)
        true.append(fold.start_s[rows[queue.running + chosen]])
        for column, values in (
            (low, found.low_s), (mid, found.mid_s), (high, found.high_s), (plan, limits),
        ):  # fmt: skip
            column.append(values[chosen])
    truth, below, middle, above, planned = map(np.concatenate, (true, low, mid, high, plan))
    inside = float(np.mean((truth >= below) & (truth <= above)))
    return [
        Row(
            name, "live replay", len(truth), *_errors(truth, middle), inside,
            float(np.median(above - below)),
        ),
        Row(name, "by the users' limits", len(truth), *_errors(truth, planned)),
    ]  # fmt: skip


def _errors(true: Floats, found: Floats) -> tuple[float, float]:
    error = np.abs(found - true)
    return float(np.median(error)), float(error.mean())


def _queue(fold: _Fold, now_s: float) -> tuple[Queue, Ints, Times]:
    """The queue at a moment, and which rows of the fold it is made of."""
    running = np.flatnonzero((fold.start_s <= now_s) & (fold.end_s > now_s))
    waiting = np.flatnonzero((fold.submit_s <= now_s) & (fold.start_s > now_s))
    rows = np.concatenate([running, waiting])
    elapsed = np.concatenate([now_s - fold.start_s[running], np.zeros(len(waiting))])
    trace = _trace(fold, rows, now_s)
    known = (fold.times.low_s[rows], fold.times.mid_s[rows], fold.times.high_s[rows])
    held = tuple(np.zeros(0, np.int64) for _ in running)
    return Queue(trace, now_s, elapsed, held), rows, Times(*known)


def _trace(fold: _Fold, rows: Ints, now_s: float) -> Trace:
    return trace_of(
        np.full(len(rows), now_s), np.ones(len(rows)), fold.cores[rows],
        limit_s=fold.limit_s[rows], queues=("all",),
    )  # fmt: skip


def by_limits(queue: Queue) -> Floats:
    """[waiting jobs] when each could start if all took their limits, one after the other."""
    trace, now = queue.trace, queue.now_s
    first = queue.running
    ends = now + np.maximum(trace.limit_s[:first] - queue.elapsed_s[:first], 1.0)
    order = np.argsort(ends)
    times = np.concatenate([[now], ends[order]])
    free = (
        CORES
        - trace.cores[:first].sum()
        + np.concatenate([[0], np.cumsum(trace.cores[:first][order])])
    )
    starts = np.empty(len(trace) - first)
    for place, (cores, lasts) in enumerate(
        zip(trace.cores[first:].tolist(), trace.limit_s[first:].tolist(), strict=True)
    ):
        begin = _earliest(times, free, cores, lasts)
        for moment in (begin, begin + lasts):
            at = int(np.searchsorted(times, moment))
            if at == len(times) or times[at] != moment:
                times, free = np.insert(times, at, moment), np.insert(free, at, free[at - 1])
        free[np.searchsorted(times, begin) : np.searchsorted(times, begin + lasts)] -= cores
        starts[place] = begin
    return starts


def _earliest(times: Floats, free: Ints, cores: int, lasts: float) -> float:
    """The first moment from which so many cores are free for so long."""
    enough = free >= cores
    begins = np.flatnonzero(enough & np.concatenate([[True], ~enough[:-1]]))
    ends = np.flatnonzero(~enough)
    following = np.append(times[ends], np.inf)[np.searchsorted(ends, begins)]
    return float(times[begins[np.argmax(following - times[begins] >= lasts)]])
