"""When waiting jobs start: the live replay beside an estimate by the users' limits, on RICC.

The trace is replayed under EASY on its 8,192 cores; that is the truth. At random moments the queue
as it stands is handed to ``policies.replay.live`` with run times as the evaluated predictor of past
jobs knew them, and to a plan in which every job takes all of its limit, in order, each with a
reservation: what ``squeue --start`` shows. Jobs that are submitted later are known to neither.

The moments are gone through in order of time, and the levels of the intervals follow the starts
that are known by then (``ConformalLevels``, whose constants were chosen on the first fold); nothing
is fitted on the jobs that are reported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from berth.policies.replay import Backfill, Settings, Trace, one_pool, replay, trace_of
from berth.policies.replay.live import (
    AS_DRAWN,
    Levels,
    Queue,
    Times,
    foresee,
    widened,
)
from berth.policies.replay.trace import Floats, Ints
from berth.predictor.learning.history import RunTimePredictor
from lab.datasets import ricc
from lab.experiments.options import Options
from lab.ground.report import Report, Section
from lab.history.replay import replay as predictions
from lab.history.start_levels import ConformalLevels

CORES = 8_192
FOLDS = (("calibration", 50_000, 70_000), ("held out", 70_000, 90_000))
"""Rows of the trace; the predictor's weights are of those before."""
MOMENTS = 120
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
    levels = _Followed(ConformalLevels(), [])
    rows = []
    for name, begin, end in FOLDS:
        rows += _rows(name, _replayed(begin, end), levels, options.seed)
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


class _Foretold(NamedTuple):
    """One start at one moment: seconds from then."""

    low_s: float
    mid_s: float
    high_s: float
    """As drawn."""
    wait_s: float
    """The truth."""
    start_s: float
    """When it is known."""
    planned_s: float
    """By the users' limits."""
    levels: Levels
    """As they stood."""


@dataclass(frozen=True)
class _Followed:
    """Levels, and the forecasts whose start is not known yet."""

    online: ConformalLevels
    unknown: list[tuple[int, _Foretold]]

    def learn(self, until_s: float) -> None:
        """Starts until then are known."""
        for number, one in self.unknown:
            if one.start_s <= until_s:
                self.online.started(number, one.wait_s)
        self.unknown[:] = [pair for pair in self.unknown if pair[1].start_s > until_s]


def _rows(name: str, fold: _Fold, levels: _Followed, seed: int) -> list[Row]:
    found = _foretold(fold, levels, np.random.default_rng(seed))
    true, plan, low, mid, high = (
        np.array(column)
        for column in zip(*((f.wait_s, f.planned_s, *f[:3]) for f in found), strict=True)
    )
    online = np.array(
        [
            [float(one) for one in widened(low[k], mid[k], high[k], each.levels)]
            for k, each in enumerate(found)
        ]
    ).T
    shown = (
        ("live replay, levels by starts known so far", (online[0], online[1], online[2])),
        ("with the levels of berth replay --live", widened(low, mid, high, Levels())),
        ("as drawn", (low, mid, high)),
    )
    rows = []
    for method, (below, middle, above) in shown:
        inside = float(np.mean((true >= below) & (true <= above)))
        width = float(np.median(above - below))
        rows.append(Row(name, method, len(true), *_errors(true, middle), inside, width))
    return [*rows, Row(name, "by the users' limits", len(true), *_errors(true, plan))]


def _foretold(fold: _Fold, levels: _Followed, rng: np.random.Generator) -> list[_Foretold]:
    """Starts at random moments in order of time; the levels learn from those that are known."""
    wait = fold.start_s - fold.submit_s
    jobs = rng.choice(np.flatnonzero(wait >= LEAST_WAIT_S), MOMENTS)
    moments = fold.submit_s[jobs] + rng.uniform(0.0, 0.98, MOMENTS) * wait[jobs]
    found: list[_Foretold] = []
    for job, now_s in sorted(zip(jobs.tolist(), moments.tolist(), strict=True), key=lambda m: m[1]):
        levels.learn(now_s)
        queue, rows, times = _queue(fold, now_s)
        seen = foresee(
            queue, one_pool(CORES), Settings(Backfill.EASY, compiled=True), times,
            samples=SAMPLES, seed=job, levels=AS_DRAWN,
        )  # fmt: skip
        limits = by_limits(queue)
        asked: list[tuple[int, _Foretold]] = []
        for k in rng.choice(len(limits), min(OF_EACH, len(limits)), replace=False).tolist():
            start_s = float(fold.start_s[rows[queue.running + k]])
            columns = (seen.low_s, seen.mid_s, seen.high_s)
            low, mid, high = (float(column[k]) - now_s for column in columns)
            found.append(
                _Foretold(
                    low, mid, high, start_s - now_s, start_s, float(limits[k]) - now_s,
                    levels.online.at(now_s, k),
                )
            )  # fmt: skip
            asked.append((k, found[-1]))
        for k, one in asked:
            number = levels.online.made(now_s, one.low_s, one.high_s, k)
            levels.unknown.append((number, one))
    return found


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
