"""The run time of the next job from jobs that have ended, learnt one job at a time.

It learns from starts and ends of jobs in the order of time. Memory is bounded: rings of a few
ended jobs for each user, shape and account, the least recently used dropped. Three guesses are
made of a job's time: the best by the weights, the same with flattened weights, and the median of
the last jobs of the same shape. Each user gets the one that was most accurate for that user
lately, by decayed means that begin at the site's. ``learn_from`` teaches jobs that ended long ago
as if they ended now: nothing is known of one before its end.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from berth.predictor.core.prediction import Interval
from berth.predictor.learning.history.evidence import Evidence, Now, weigh
from berth.predictor.learning.history.intervals import Confidence, Levels, Nested
from berth.predictor.learning.history.rings import (
    LOG_RUN,
    AskedJob,
    EndedJob,
    Floats,
    Ring,
    Rings,
    column_of,
)

GUESSES = 3
_DECAY = 0.99
_PRIOR = 20.0
_SITE_STEP = 0.001
_USERS = 20_000


class Choice:
    """Accuracy of each guess by user."""

    def __init__(self) -> None:
        self._site = [0.6] * GUESSES
        self._users: OrderedDict[Hashable, tuple[list[float], float]] = OrderedDict()

    def of(self, user: Hashable) -> int:
        """Return the place of the guess to take."""
        sums, count = self._users.get(user, ([0.0] * GUESSES, 0.0))
        means = [
            (total + _PRIOR * site) / (count + _PRIOR)
            for total, site in zip(sums, self._site, strict=True)
        ]
        return means.index(max(means))

    def learn(self, user: Hashable, guesses: Sequence[float], real: float) -> None:
        """Learn from a job of the user that ended; guesses and time are logarithms."""
        sums, count = self._users.pop(user, ([0.0] * GUESSES, 0.0))
        for place, guess in enumerate(guesses):
            accuracy = math.exp(-abs(real - guess))
            sums[place] = _DECAY * sums[place] + accuracy
            self._site[place] += _SITE_STEP * (accuracy - self._site[place])
        self._users[user] = (sums, _DECAY * count + 1.0)
        if len(self._users) > _USERS:
            self._users.popitem(last=False)


CAPACITIES = (64, 48, 12, 12)
"""Ended jobs remembered of a user; of a user and shape; of an account; of a shape."""
KEYS = 60_000
RUNNING = 64
"""Running jobs looked at of a user and shape."""
LAST = 20
"""Jobs of the same shape whose median is a guess, too."""
_LAST_RANK = math.log1p(LAST - 1) / 4.0 + 1e-9
OPEN = 200_000
"""Predictions whose job has not ended, at most."""


@dataclass(frozen=True, slots=True)
class RunTime:
    """What is predicted of one job."""

    runtime_s: Interval
    """The middle has the highest expected ``accuracy``; 90 % of jobs end within."""
    accuracy: float
    """Expected min(predicted, real) / max(predicted, real), from how well such predictions held."""
    trusted: bool
    """Whether it is among those worth acting on: not one of the least certain."""
    runs: int
    """Ended jobs of the user that it stands on."""


@dataclass(frozen=True, slots=True)
class _Open:
    """What was predicted of a job that has not ended."""

    low: float
    mid: float
    high: float
    guesses: tuple[float, ...]
    intervals: Nested
    expected: float
    runs: int


class RunTimePredictor:
    """Deterministic: the same jobs in the same order give the same predictions."""

    def __init__(self) -> None:
        self._rings = Rings(KEYS)
        self._running: OrderedDict[Hashable, OrderedDict[str, float]] = OrderedDict()
        self._levels = Levels()
        self._choice = Choice()
        self._confidence = Confidence()
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def __len__(self) -> int:
        """Return how many keys are remembered."""
        return len(self._rings)

    def started(self, job_id: str, asked: AskedJob, start_s: float) -> None:
        """Note that a job runs since Unix time ``start_s``."""
        key = _shape(asked)
        running = self._running.setdefault(key, OrderedDict())
        self._running.move_to_end(key)
        running[job_id] = start_s
        if len(running) > RUNNING:
            running.popitem(last=False)
        if len(self._running) > KEYS:
            self._running.popitem(last=False)

    def ended(self, job_id: str, job: EndedJob) -> None:
        """Learn from a job that has ended, whether it was predicted or not."""
        asked = job.asked
        row = column_of(job)
        for key, capacity in zip(_keys(asked), CAPACITIES, strict=True):
            if key is not None:
                self._rings.add(key, row, capacity)
        shape = _shape(asked)
        running = self._running.get(shape)
        if running is not None:
            running.pop(job_id, None)
            if not running:
                del self._running[shape]
        predicted = self._open.pop(job_id, None)
        if predicted is not None:
            real = float(row[0])
            missed = not predicted.low <= real <= predicted.high
            self._levels.learn(asked.user, predicted.intervals.level_of(real), missed=missed)
            self._choice.learn(asked.user, predicted.guesses, real)
            self._confidence.learn(
                predicted.expected, predicted.runs, math.exp(-abs(real - predicted.mid))
            )

    def predict(self, asked: AskedJob, now_s: float, *, job_id: str = "") -> RunTime:
        """Return the job's run time as of Unix time ``now_s``.

        With ``job_id`` its end will teach how wide intervals must be.
        """
        now, rings = self.known(asked, now_s)
        evidence = weigh(asked, now, rings)
        guesses, expected = _guesses(evidence, rings[1])
        mid = guesses[self._choice.of(asked.user)]
        intervals = Nested(evidence, mid)
        low, high = intervals.at(self._levels.of(asked.user))
        low, high = min(low, mid), max(high, mid)  # rounding
        accuracy = self._confidence.of(expected, evidence.own_runs)
        if job_id:
            self._remember(
                job_id, _Open(low, mid, high, guesses, intervals, expected, evidence.own_runs)
            )
            self._confidence.seen(accuracy)
        return RunTime(
            Interval(math.exp(low), math.exp(mid), math.exp(high)),
            accuracy,
            evidence.own_runs > 0 and self._confidence.trusts(accuracy),
            evidence.own_runs,
        )

    def known(self, asked: AskedJob, now_s: float) -> tuple[Now, list[Ring | None]]:
        """Return what a prediction is made from, as ``evidence.weigh`` takes it."""
        rings = [None if key is None else self._rings.get(key) for key in _keys(asked)]
        return Now(now_s, self._elapsed(asked, now_s)), rings

    def _elapsed(self, asked: AskedJob, now_s: float) -> Floats:
        running = self._running.get(_shape(asked))
        if not running:
            return np.empty(0)
        elapsed = now_s - np.fromiter(running.values(), float, len(running))
        positive: Floats = elapsed[elapsed > 0]
        return positive

    def _remember(self, job_id: str, predicted: _Open) -> None:
        self._open.pop(job_id, None)
        self._open[job_id] = predicted
        if len(self._open) > OPEN:
            self._open.popitem(last=False)


def _guesses(evidence: Evidence, shape: Ring | None) -> tuple[tuple[float, ...], float]:
    """Return the guesses of ``Choice``, and the accuracy that the evidence expects of the first."""
    mid, expected = best(evidence)
    flat = np.sqrt(evidence.weights) * np.sqrt(np.sqrt(evidence.weights))
    flattened, _ = best(Evidence(evidence.log_runs, flat / flat.sum(), evidence.own_runs))
    median = mid
    if shape is not None:
        times = shape.columns[LOG_RUN]
        if len(times) > LAST:
            times = times[shape.log_ranks <= _LAST_RANK]
        median = float(np.sort(times)[len(times) // 2])
    return (mid, flattened, median), expected


def best(evidence: Evidence) -> tuple[float, float]:
    """Return the logarithm of the time with the highest expected min/max ratio, and that ratio.

    The expectation has its maximum at one of the past run times: between two it is convex.
    """
    logs, weights = evidence.log_runs, evidence.weights
    scaled = np.exp(logs)
    below = np.cumsum(weights * scaled)
    over = weights / scaled
    above = over.sum() - np.cumsum(over)
    expected = below / scaled + above * scaled
    place = int(expected.argmax())
    return float(logs[place]), float(expected[place])


def _shape(asked: AskedJob) -> Hashable:
    return (asked.user, asked.cores, asked.request_s)


def _keys(asked: AskedJob) -> tuple[Hashable | None, ...]:
    """Return the keys of a job in the order of ``CAPACITIES``."""
    shape = (asked.cores, asked.request_s)
    program = asked.script or asked.name
    return (
        ("user", asked.user),
        ("shape", asked.user, program, *shape, asked.request_bytes),
        ("account", asked.account) if asked.account else None,
        ("any", *shape),
    )


class Event(IntEnum):
    """At one moment in this order."""

    END = 0
    ASKED = 1
    START = 2


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job that ran, with its start in Unix seconds."""

    job_id: str
    start_s: float
    ended: EndedJob


def in_order(submit_s: Floats, start_s: Floats, end_s: Floats) -> Iterator[tuple[Event, int]]:
    """Yield ends, submissions and starts of [jobs] by time: what ended at a moment is known
    then."""
    jobs = len(submit_s)
    times = np.concatenate([end_s, submit_s, start_s])
    kinds = np.repeat([Event.END, Event.ASKED, Event.START], jobs)
    order = np.lexsort((kinds, times))
    for place in order.tolist():
        yield Event(int(kinds[place])), place % jobs


def learn_from(jobs: Sequence[PastJob], predictor: RunTimePredictor) -> None:
    """Let every job be predicted at its submission and learnt from at its end.

    Intervals and choices are then those that would have held for these jobs.
    """
    times = (
        np.array([job.ended.asked.submit_s for job in jobs]),
        np.array([job.start_s for job in jobs]),
        np.array([job.ended.end_s for job in jobs]),
    )
    for event, place in in_order(*times):
        job = jobs[place]
        if event is Event.END:
            predictor.ended(job.job_id, job.ended)
        elif event is Event.ASKED:
            asked = job.ended.asked
            predictor.predict(asked, asked.submit_s, job_id=job.job_id)
        else:
            predictor.started(job.job_id, job.ended.asked, job.start_s)
