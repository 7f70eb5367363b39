"""The run time of the next job from jobs that have ended, learnt one job at a time.

It learns from starts and ends of jobs in the order of time. Memory is bounded: rings of a few
ended jobs for each user, shape and account, the least recently used dropped.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.prediction import Interval
from berth.predictor.learning.history.choice import Choice
from berth.predictor.learning.history.confidence import Confidence
from berth.predictor.learning.history.evidence import Evidence, Now, weigh
from berth.predictor.learning.history.intervals import Levels, Nested
from berth.predictor.learning.history.jobs import AskedJob, EndedJob
from berth.predictor.learning.history.rings import LOG_RUN, Floats, Ring, Rings, column_of

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
        """How many keys are remembered."""
        return len(self._rings)

    def started(self, job_id: str, asked: AskedJob, start_s: float) -> None:
        """A job runs since Unix time ``start_s``."""
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
        """The job's run time as of Unix time ``now_s``.

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
        """What a prediction is made from, as ``evidence.weigh`` takes it."""
        rings = [None if key is None else self._rings.get(key) for key in _keys(asked)]
        return Now(now_s, self._elapsed(asked, now_s)), rings

    def _elapsed(self, asked: AskedJob, now_s: float) -> Floats:
        running = self._running.get(_shape(asked))
        if not running:
            return np.empty(0)
        elapsed = now_s - np.fromiter(running.values(), float, len(running))
        found: Floats = elapsed[elapsed > 0]
        return found

    def _remember(self, job_id: str, predicted: _Open) -> None:
        self._open.pop(job_id, None)
        self._open[job_id] = predicted
        if len(self._open) > OPEN:
            self._open.popitem(last=False)


def _guesses(evidence: Evidence, shape: Ring | None) -> tuple[tuple[float, ...], float]:
    """Those of ``choice``, and the accuracy that the evidence expects of the first."""
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
    """The logarithm of the time with the highest expected min/max ratio, and that ratio.

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
    """In the order of ``CAPACITIES``."""
    shape = (asked.cores, asked.request_s)
    what = asked.script or asked.name
    return (
        ("user", asked.user),
        ("shape", asked.user, what, *shape, asked.request_bytes),
        ("account", asked.account) if asked.account else None,
        ("any", *shape),
    )
