"""Run time of the next job from jobs that have ended, learnt one job at a time.

The predictor is fed starts and ends of jobs in the order of time. Memory is bounded: a few ended
jobs are kept per user, shape (cores and time limit) and account, and the least recently used keys
are dropped. Three guesses of a job's time are made: the optimum under the weights, the optimum
under flattened weights, and the median of the last jobs of the same shape. Each user gets the guess
that was most accurate for that user lately, by exponentially decayed means that begin at the site's
means. ``learn_from`` replays jobs that ended long ago in the order of time: a job is unknown until
its end.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from berth.predictor.core.prediction import Interval
from berth.predictor.learning.history.evidence import PredictionTime, WeightedRuns, weigh
from berth.predictor.learning.history.intervals import Confidence, Levels, Nested
from berth.predictor.learning.history.rings import (
    LOG_RUN,
    AskedJob,
    Floats,
    JobEnd,
    Ring,
    Rings,
    column_of,
)

GUESSES = 3
"""Number of guesses of a job's time, see the module's docstring."""
_DECAY = 0.99
_PRIOR = 20.0
_SITE_STEP = 0.001
_USERS = 20_000


class RecentAccuracy:
    """Recent accuracy, for each user, of three ways to guess a run time."""

    def __init__(self) -> None:
        self._site = [0.6] * GUESSES
        self._users: OrderedDict[Hashable, tuple[list[float], float]] = OrderedDict()

    def of(self, user: Hashable) -> int:
        """Return the index of the way to guess run times that was most accurate for the user
        lately."""
        sums, count = self._users.get(user, ([0.0] * GUESSES, 0.0))
        means = [
            (total + _PRIOR * site) / (count + _PRIOR)
            for total, site in zip(sums, self._site, strict=True)
        ]
        return means.index(max(means))

    def learn(self, user: Hashable, guesses: Sequence[float], real: float) -> None:
        """Update the accuracy of a user's guesses by an ended job; ``guesses`` and ``real`` are
        natural logs of seconds."""
        sums, count = self._users.pop(user, ([0.0] * GUESSES, 0.0))
        for place, guess in enumerate(guesses):
            accuracy = math.exp(-abs(real - guess))
            sums[place] = _DECAY * sums[place] + accuracy
            self._site[place] += _SITE_STEP * (accuracy - self._site[place])
        self._users[user] = (sums, _DECAY * count + 1.0)
        if len(self._users) > _USERS:
            self._users.popitem(last=False)


CAPACITIES = (64, 48, 12, 12)
"""Ended jobs remembered per user; per user and shape; per account; per shape of any user."""
KEYS = 60_000
"""Largest number of keys with remembered jobs."""
RUNNING = 64
"""Largest number of running jobs considered per user and shape."""
LAST = 20
"""Number of last jobs of the same shape whose median is the third guess."""
_LAST_RANK = math.log1p(LAST - 1) / 4.0 + 1e-9
OPEN = 200_000
"""Largest number of stored predictions whose job has not ended."""


@dataclass(frozen=True, slots=True)
class RunTime:
    """Predicted run time of one job, with its expected accuracy."""

    runtime_s: Interval
    """Run time in seconds: the middle has the highest expected ``accuracy``; 90 % of jobs end
    inside."""
    accuracy: float
    """Expected min(predicted, real) / max(predicted, real), from the accuracy of similar past
    predictions."""
    trusted: bool
    """Whether the prediction is accurate enough to act on: not among the least certain."""
    runs: int
    """Number of ended jobs of the user on which the prediction is based."""


@dataclass(frozen=True, slots=True)
class _Open:
    """The prediction of a job that has not ended; times are natural logs of seconds."""

    low: float
    mid: float
    high: float
    guesses: tuple[float, ...]
    intervals: Nested
    expected: float
    runs: int


class RunTimePredictor:
    """Predicts run times and learns from ended jobs; the same jobs in the same order give the same
    results."""

    def __init__(self) -> None:
        self._rings = Rings(KEYS)
        self._running: OrderedDict[Hashable, OrderedDict[str, float]] = OrderedDict()
        self._levels = Levels()
        self._choice = RecentAccuracy()
        self._confidence = Confidence()
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of users, job shapes and accounts with remembered jobs."""
        return len(self._rings)

    def started(self, job_id: str, asked: AskedJob, start_s: float) -> None:
        """Note that a job has been running since Unix time ``start_s``."""
        key = _shape(asked)
        running = self._running.setdefault(key, OrderedDict())
        self._running.move_to_end(key)
        running[job_id] = start_s
        if len(running) > RUNNING:
            running.popitem(last=False)
        if len(self._running) > KEYS:
            self._running.popitem(last=False)

    def ended(self, job_id: str, job: JobEnd) -> None:
        """Learn from a job that has ended, whether its time was predicted or not."""
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
        """Return the predicted run time of a job as of Unix time ``now_s``.

        With ``job_id`` the prediction is remembered, and the job's end adjusts later intervals.
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

    def known(self, asked: AskedJob, now_s: float) -> tuple[PredictionTime, list[Ring | None]]:
        """Return the running jobs and the remembered past jobs from which a job's time is
        predicted."""
        rings = [None if key is None else self._rings.get(key) for key in _keys(asked)]
        return PredictionTime(now_s, self._elapsed(asked, now_s)), rings

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


def _guesses(evidence: WeightedRuns, shape: Ring | None) -> tuple[tuple[float, ...], float]:
    mid, expected = best(evidence)
    flat = np.sqrt(evidence.weights) * np.sqrt(np.sqrt(evidence.weights))
    flattened, _ = best(WeightedRuns(evidence.log_runs, flat / flat.sum(), evidence.own_runs))
    median = mid
    if shape is not None:
        times = shape.columns[LOG_RUN]
        if len(times) > LAST:
            times = times[shape.log_ranks <= _LAST_RANK]
        median = float(np.sort(times)[len(times) // 2])
    return (mid, flattened, median), expected


def best(evidence: WeightedRuns) -> tuple[float, float]:
    """Return the past run time (natural log) with the highest expected accuracy, and that accuracy.

    Accuracy is min(predicted, real) / max(predicted, real). Its expectation is convex between two
    past run times, so its maximum is at one of them.
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
    """Return the keys (user, shape, account) under which a job is remembered, in the order of
    ``CAPACITIES``.

    None: the job has no such key.
    """
    shape = (asked.cores, asked.request_s)
    program = asked.script or asked.name
    return (
        ("user", asked.user),
        ("shape", asked.user, program, *shape, asked.request_bytes),
        ("account", asked.account) if asked.account else None,
        ("any", *shape),
    )


class JobEvent(IntEnum):
    """End, submission or start of a job; events of the same second are processed in this order."""

    END = 0
    ASKED = 1
    START = 2


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job that has run: its submission, start, end and properties."""

    job_id: str
    start_s: float
    ended: JobEnd


def in_order(submit_s: Floats, start_s: Floats, end_s: Floats) -> Iterator[tuple[JobEvent, int]]:
    """Yield the ends, submissions and starts of jobs by time, each with the index of its job.

    An end comes before a submission of the same second, so that the ended job is known then.
    """
    jobs = len(submit_s)
    times = np.concatenate([end_s, submit_s, start_s])
    kinds = np.repeat([JobEvent.END, JobEvent.ASKED, JobEvent.START], jobs)
    order = np.lexsort((kinds, times))
    for place in order.tolist():
        yield JobEvent(int(kinds[place])), place % jobs


def learn_from(jobs: Sequence[PastJob], predictor: RunTimePredictor) -> None:
    """Replay past jobs into ``predictor``: predict each at its submission, and learn from it at its
    end.

    Interval levels and the choice of guesses are then those that fit these jobs.
    """
    times = (
        np.array([job.ended.asked.submit_s for job in jobs]),
        np.array([job.start_s for job in jobs]),
        np.array([job.ended.end_s for job in jobs]),
    )
    for event, place in in_order(*times):
        job = jobs[place]
        if event is JobEvent.END:
            predictor.ended(job.job_id, job.ended)
        elif event is JobEvent.ASKED:
            asked = job.ended.asked
            predictor.predict(asked, asked.submit_s, job_id=job.job_id)
        else:
            predictor.started(job.job_id, job.ended.asked, job.start_s)
