"""When a queue has room next, by the predicted ends of its jobs: a look-ahead in order of arrival.

Kept beside the submit path: what is placed goes in, a table of waits by size comes out.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple

import numpy as np

from berth.policies.waits import WaitTable
from berth.predictor.core.prediction import Interval

MOST_UNITS = 2_048
"""Larger queues are followed in groups of cores."""
_ANY_LENGTH = (math.inf,)


class Lookahead:
    """One queue of so many cores or GPUs; jobs start in order of arrival, as soon as there is
    room for them."""

    def __init__(self, units: int) -> None:
        self._each = max(1, -(-units // MOST_UNITS))
        count = max(1, units // self._each)
        self._free_at = np.full(count, -math.inf)
        """Sorted: when each unit is predicted free."""
        self._last_start = -math.inf
        self._classes = tuple(
            dict.fromkeys((*(2**i for i in range(count.bit_length()) if 2**i < count), count))
        )

    def placed(self, units: int, runtime_s: float, now_s: float) -> float:
        """A job was put in; its predicted start."""
        held = self._held(units)
        start = self._start(held, now_s)
        self._free_at[:held] = start + runtime_s
        self._free_at.sort()
        self._last_start = start
        return start

    def empty_queue(self, free: int, now_s: float) -> None:
        """Nobody waits and so many units are free: the truth, which corrects what was predicted."""
        self._last_start = -math.inf
        free = min(free // self._each, len(self._free_at))
        self._free_at[:free] = np.minimum(self._free_at[:free], now_s)
        self._free_at[free:] = np.maximum(self._free_at[free:], now_s)

    def table(self, now_s: float) -> WaitTable:
        """Waits of a job that comes now, by its size."""
        waits = [self._start(size, now_s) - now_s for size in self._classes]
        return WaitTable(
            tuple(size * self._each for size in self._classes),
            _ANY_LENGTH,
            tuple((Interval(wait, wait, wait),) for wait in waits),
        )

    def waits(self, now_s: float) -> LookaheadWaits:
        """As ``table``, each wait computed when it is asked for: until the next job is placed."""
        return LookaheadWaits(self, now_s)

    def wait_s(self, units: int, now_s: float) -> float:
        """Of a job that comes now, as the table has it."""
        place = bisect_left(self._classes, -(-units // self._each))
        size = self._classes[min(place, len(self._classes) - 1)]
        return self._start(size, now_s) - now_s

    def _held(self, units: int) -> int:
        return min(max(1, -(-units // self._each)), len(self._free_at))

    def _start(self, held: int, now_s: float) -> float:
        return max(now_s, self._last_start, float(self._free_at[held - 1]))


class LookaheadWaits(NamedTuple):
    """A queue's waits at one moment."""

    queue: Lookahead
    now_s: float

    def at(self, units: int, runtime_s: float) -> Interval:
        """See Waits."""
        del runtime_s  # those of any length wait alike
        wait_s = self.queue.wait_s(units, self.now_s)
        return Interval(wait_s, wait_s, wait_s)
