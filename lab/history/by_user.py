"""A trace as a site's filter has it: each user's jobs alone, and time limits that are new."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from berth.plugin.history.run_times import ANOTHER_LIMIT, without_limit
from berth.predictor.core.prediction import Interval
from berth.predictor.learning.history import AskedJob, RunTimePredictor
from berth.predictor.learning.history.replay import Event
from lab.datasets.ricc import Trace
from lab.ground.table import Floats, Places
from lab.history.replay import asked_jobs, ended_job, events


@dataclass(frozen=True, slots=True)
class ByUser:
    """[jobs] seconds at submission; NaN: the user had no ended job."""

    mid_s: Floats
    low_s: Floats
    high_s: Floats
    same: Places
    """Ended jobs of the same user, cores and time limit."""
    weak_mid_s: Floats
    """Asked as for a match that says no time limit: 1.25 times that of the user's newest ended job
    with these cores. NaN where there is none, or where ended jobs have the job's own limit."""
    weak_low_s: Floats
    weak_high_s: Floats


def by_user(trace: Trace) -> ByUser:
    """Every user has a predictor that learns from that user's jobs only."""
    low, mid, high, weak_low, weak_mid, weak_high = (np.full(len(trace), np.nan) for _ in range(6))
    same = np.zeros(len(trace), np.int64)
    found = ByUser(mid, low, high, same, weak_mid, weak_low, weak_high)
    for user in np.unique(trace.user):
        rows = np.flatnonzero(trace.user == user)
        _replay(trace[rows], rows, found)
    return found


def _replay(jobs: Trace, rows: Places, found: ByUser) -> None:
    predictor, asked = RunTimePredictor(), asked_jobs(jobs)
    shapes: Counter[tuple[int, float | None]] = Counter()
    limits: set[float | None] = set()
    runs_s: list[float] = []
    newest: dict[int, AskedJob] = {}
    for event, place in events(jobs):
        one, row = asked[place], rows[place]
        if event is Event.END:
            predictor.ended(str(place), ended_job(jobs, one, place))
            shapes[one.cores, one.request_s] += 1
            limits.add(one.request_s)
            runs_s.append(float(jobs.runtime_s[place]))
            newest[one.cores] = one
        elif event is Event.START:
            predictor.started(str(place), one, float(jobs.start_s[place]))
        else:
            made = predictor.predict(one, one.submit_s, job_id=str(place))
            if not newest:
                continue
            found.same[row] = shapes[one.cores, one.request_s]
            _set(made.runtime_s, (found.low_s, found.mid_s, found.high_s), row)
            like = newest.get(one.cores)
            if like is not None and one.request_s not in limits and shapes.total() > 1:
                weak = predictor.predict(_with_another_limit(like, one.submit_s), one.submit_s)
                columns = (found.weak_low_s, found.weak_mid_s, found.weak_high_s)
                _set(without_limit(weak.runtime_s, runs_s), columns, row)


def _with_another_limit(like: AskedJob, submit_s: float) -> AskedJob:
    limit_s = None if like.request_s is None else ANOTHER_LIMIT * like.request_s
    return AskedJob(
        like.user, submit_s, like.cores, limit_s, like.request_bytes, like.account
    )  # fmt: skip


def _set(made: Interval, columns: tuple[Floats, Floats, Floats], row: int) -> None:
    for column, value in zip(columns, (made.low, made.mid, made.high), strict=True):
        column[row] = value
