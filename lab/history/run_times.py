"""Run times of a trace's jobs from past jobs alone, in order of time, beside simple predictors."""

from __future__ import annotations

import resource
import time
from collections import defaultdict, deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np

from berth.predictor.learning.history import AskedJob, JobEnd, RunTimePredictor
from berth.predictor.learning.history.run_time import JobEvent, in_order
from lab.datasets.ricc import Trace, trace
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
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


def events(trace: Trace) -> Iterator[tuple[JobEvent, int]]:
    """Ends, submissions and starts in order of time: what ended at a moment is known then."""
    return in_order(trace.submit_s, trace.start_s, trace.end_s)


def ended_job(trace: Trace, one: AskedJob, job: int) -> JobEnd:
    """Return what is known of it when it has ended."""
    return JobEnd(
        one, float(trace.end_s[job]), float(trace.runtime_s[job]), bool(trace.completed[job])
    )


def asked_jobs(trace: Trace) -> list[AskedJob]:
    """Return [jobs] as they were submitted."""
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
    """Return every job is predicted at its submission and again at its start."""
    jobs = len(trace)
    mid, low, high, accuracy, renewed = (np.full(jobs, np.nan) for _ in range(5))
    trusted, renewed_trusted = np.zeros(jobs, bool), np.zeros(jobs, bool)
    asked, took = asked_jobs(trace), np.zeros(jobs)
    began, renewing = time.process_time(), 0.0
    for event, job in events(trace):
        one = asked[job]
        if event is JobEvent.END:
            predictor.ended(str(job), ended_job(trace, one, job))
        elif event is JobEvent.ASKED:
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


LAST = 20
"""Ended jobs of a user, number of processors and request that are looked at."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """[jobs] seconds; NaN: no such history."""

    request: Floats
    last_two: Floats
    """Mean of the user's last two (Tsafrir, Etsion, Feitelson 2007), at most the request."""
    median: Floats
    """Of the last 20 of user, processors and request."""
    median_at_start: Floats


def baselines(trace: Trace) -> Baselines:
    """Return all of them in one pass."""
    jobs = len(trace)
    of_user: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=2))
    of_shape: dict[Hashable, deque[float]] = defaultdict(lambda: deque(maxlen=LAST))
    shapes = list(zip(trace.user.tolist(), trace.cores.tolist(), trace.request_s.tolist(),
                      strict=True))  # fmt: skip
    two, median, again = (np.full(jobs, np.nan) for _ in range(3))
    run = trace.runtime_s.tolist()
    for event, job in events(trace):
        user, past = shapes[job][0], of_shape[shapes[job]]
        if event is JobEvent.END:
            of_user[user].append(run[job])
            past.append(run[job])
        elif event is JobEvent.ASKED:
            if len(of_user[user]) == 2:
                two[job] = min(sum(of_user[user]) / 2, trace.request_s[job])
            if past:
                median[job] = float(np.median(past))
        else:
            again[job] = float(np.median(past)) if past else median[job]
    return Baselines(trace.request_s, two, median, again)


FITTED = 50_000
"""Jobs that the shipped weights were fitted on: the first fifth."""


def train(options: Options) -> str:
    """Return the weights from the first fifth of the trace."""
    from lab.history import fit  # noqa: PLC0415 - torch only where something is trained

    jobs = trace()[np.arange(FITTED)]
    chosen = fit.sampled(jobs, options.seed)
    constants = [
        fit.fit(fit.examples(jobs, chosen, at_start=at_start), options.seed)
        for at_start in (False, True)
    ]
    path = fit.write(options.bundle, *constants)
    return f"{path}: fitted on {int(chosen.sum())} of the first {FITTED} jobs"


def evaluate(_: Options) -> Report:
    """Return the whole trace once through the predictor, once through the baselines.

    Accuracies are the mean of min(p, t) / max(p, t); widths the mean of log(high / low).
    """
    jobs = trace()
    predictor = RunTimePredictor()
    found = replay(jobs, predictor)
    used_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    simple = baselines(jobs)
    everything = np.ones(len(jobs), bool)
    parts = {"all": everything, "after the first fifth": np.arange(len(jobs)) >= FITTED}
    rows, widths = [], []
    for name, part in parts.items():
        for method, mid_s, of in (
            ("the request", simple.request, everything),
            ("user's last two", simple.last_two, everything),
            ("median of 20, user + processors + request", simple.median, everything),
            ("past jobs weighed", found.mid_s, everything),
            ("past jobs weighed, where trusted", found.mid_s, found.trusted),
            ("at the start: median of 20", simple.median_at_start, everything),
            ("at the start: past jobs weighed", found.renewed_s, everything),
            ("at the start: where trusted", found.renewed_s, found.renewed_trusted),
        ):
            rows.append((name, method, *_accuracy(jobs, mid_s, part=part, of=of)))
        for method, of in (
            ("every job", part),
            ("where trusted", part & found.trusted),
        ):
            inside = (found.low_s <= jobs.runtime_s) & (jobs.runtime_s <= found.high_s)
            width = float(np.log(found.high_s / found.low_s)[of].mean())
            widths.append((name, method, float(inside[of].mean()), width))
    cost = {
        "one prediction, us of processor time": found.prediction_us,
        "learning alone, s of processor time": found.learning_s,
        "whole replay, 2 predictions a job, s": found.seconds,
        "memory of the process with the trace, MB": used_mb,
        "keys": float(len(predictor)),
    }
    return Report(
        "Run times from past jobs: RICC 2010, 250,000 jobs in order of time",
        ("A prediction uses jobs that had ended by then. Weights fitted on the first 50,000 jobs.",
         "Accuracy: mean of min(predicted, real) / max(predicted, real)."),
        (
            Section("Accuracy", ("jobs", "method", "share of jobs", "accuracy", "mean over users"),
                    [(*row[:2], f"{row[2]:.1%}", f"{row[3]:.3f}", f"{row[4]:.3f}")
                     for row in rows]),
            Section("90 % intervals", ("jobs", "method", "coverage", "mean log width"),
                    [(*row[:2], f"{row[2]:.1%}", f"{row[3]:.2f}") for row in widths]),
            Section("Cost", tuple(cost), [tuple(f"{value:.0f}" for value in cost.values())]),
        ),
        {"accuracy": rows, "intervals": widths, "cost": cost},
    )  # fmt: skip


def _accuracy(jobs: Trace, mid_s: Floats, *, part: Flags, of: Flags) -> tuple[float, float, float]:
    """Return the share of the jobs of ``part`` that have a prediction, their accuracy, and its mean
    over users."""
    chosen = part & of & ~np.isnan(mid_s)
    accuracy = np.exp(-np.abs(np.log(np.where(chosen, mid_s, 1.0) / jobs.runtime_s)))
    users = jobs.user[chosen]
    over_users = [float(accuracy[chosen & (jobs.user == user)].mean()) for user in np.unique(users)]
    share = float(chosen.sum() / part.sum())
    return share, float(accuracy[chosen].mean()), float(np.mean(over_users))
