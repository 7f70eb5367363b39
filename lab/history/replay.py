"""A trace replayed in order of time: what a predictor learns from, and when it is asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from berth.predictor.learning.history import AskedJob, EndedJob, RunTimePredictor
from berth.predictor.learning.history.replay import Event, in_order
from lab.datasets.ricc import Trace
from lab.ground.table import Flags, Floats, Places


@dataclass(frozen=True, slots=True)
class Predicted:
    """[jobs] predictions at submission, and again at the start of jobs that waited."""

    mid_s: Floats
    low_s: Floats
    high_s: Floats
    accuracy: Floats
    """Expected."""
    trusted: Flags
    renewed_s: Floats
    renewed_trusted: Flags
    seconds: float
    """Processor time of the whole replay."""
    learning_s: float
    """... of learning alone: starts, ends, and the prediction at submission that an end is held
    against."""
    prediction_us: float
    """Median processor time of one prediction at submission."""


def events(trace: Trace) -> Iterator[tuple[Event, int]]:
    """Ends, submissions and starts in order of time: what ended at a moment is known then."""
    return in_order(trace.submit_s, trace.start_s, trace.end_s)


def ended_job(trace: Trace, one: AskedJob, job: int) -> EndedJob:
    """What is known of it when it has ended."""
    return EndedJob(
        one, float(trace.end_s[job]), float(trace.runtime_s[job]), bool(trace.completed[job])
    )


def asked_jobs(trace: Trace) -> list[AskedJob]:
    """[jobs] as they were submitted."""
    columns: tuple[Floats | Places, ...] = (
        trace.user, trace.submit_s, trace.cores, trace.request_s, trace.request_bytes,
        trace.account,
    )  # fmt: skip
    return [
        AskedJob(str(user), submit_s, cores, request_s, request_bytes, str(account))
        for user, submit_s, cores, request_s, request_bytes, account in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def replay(trace: Trace, predictor: RunTimePredictor) -> Predicted:
    """Every job is predicted at its submission and again at its start."""
    jobs = len(trace)
    mid, low, high, accuracy, renewed = (np.full(jobs, np.nan) for _ in range(5))
    trusted, renewed_trusted = np.zeros(jobs, bool), np.zeros(jobs, bool)
    asked, took = asked_jobs(trace), np.zeros(jobs)
    began, renewing = time.process_time(), 0.0
    for event, job in events(trace):
        one = asked[job]
        if event is Event.END:
            predictor.ended(str(job), ended_job(trace, one, job))
        elif event is Event.ASKED:
            moment = time.thread_time()
            predicted = predictor.predict(one, one.submit_s, job_id=str(job))
            took[job] = time.thread_time() - moment
            mid[job], low[job], high[job] = (
                predicted.runtime_s.mid, predicted.runtime_s.low, predicted.runtime_s.high,
            )  # fmt: skip
            accuracy[job], trusted[job] = predicted.accuracy, predicted.trusted
        else:
            start_s = float(trace.start_s[job])
            renewed[job], renewed_trusted[job] = mid[job], trusted[job]
            if start_s > one.submit_s:
                moment = time.thread_time()
                again = predictor.predict(one, start_s)
                renewing += time.thread_time() - moment
                renewed[job], renewed_trusted[job] = again.runtime_s.mid, again.trusted
            predictor.started(str(job), one, start_s)
    spent = time.process_time() - began
    return Predicted(
        mid, low, high, accuracy, trusted, renewed, renewed_trusted,
        spent, spent - renewing, 1e6 * float(np.median(took)),
    )  # fmt: skip
