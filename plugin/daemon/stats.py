"""Counts of the answering thread: answers, their latencies, and the filters' circuit breakers.

Only that thread writes them; other threads read. While a breaker is open its filter sends no
requests, so the daemon learns of it only afterwards: each request says how many submissions since
the last answer got none, and when the first of them was. A filter may report the same series twice
(when an answer came too late); it is counted once.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from berth.pilot.bounded import BoundedCache
from berth.plugin.host import HOST, Clock

_KEPT = 8_192
BOUNDS_US = (20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
"""Upper bounds of the latency histogram's buckets, in microseconds."""


class AnswerStats:
    """Counters by name, and the latencies of the last 8192 decisions in microseconds."""

    def __init__(self, clock: Clock = HOST.clock) -> None:
        self._clock = clock
        self.started_s = clock.monotonic()
        self.counts: Counter[str] = Counter()
        self.decisions: Counter[tuple[str, str, str]] = Counter()
        """Number of decisions by mode, action and code."""
        self._latencies_us = array("I")
        self._next = 0
        self._buckets = [0] * (len(BOUNDS_US) + 1)
        self._sum_us = 0

    def decided(self, mode: str, action: str, code: str, latency_us: int) -> None:
        """Count one reply to a ``decide`` request, and its latency."""
        self.decisions[mode, action, code] += 1
        self._buckets[bisect_left(BOUNDS_US, latency_us)] += 1
        self._sum_us += latency_us
        if len(self._latencies_us) < _KEPT:
            self._latencies_us.append(latency_us)
        else:
            self._latencies_us[self._next] = latency_us
            self._next = (self._next + 1) % _KEPT

    def summary(self) -> dict[str, object]:
        """Return all counters and latency statistics as plain data."""
        ordered = sorted(self._latencies_us)
        counts, codes = Counter(self.counts), Counter[str]()
        for (_, action, code), count in self.decisions.items():
            counts.update({"decisions": count, action: count})
            codes[code] += count
        return {
            "uptime_s": round(self._clock.monotonic() - self.started_s, 3),
            "counts": dict(counts),
            "codes": dict(codes),
            "decisions": [[*key, count] for key, count in self.decisions.items()],
            "latency_buckets_us": {
                "bounds": BOUNDS_US,
                "counts": self._buckets,
                "sum": self._sum_us,
            },
            "latency_us": {
                "p50": _quantile(ordered, 0.5),
                "p99": _quantile(ordered, 0.99),
                "max": ordered[-1] if ordered else None,
            },
        }


def _quantile(ordered: list[int], q: float) -> int | None:
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else None


MOST_SUBMISSIONS = 10**9
"""A report of more unanswered submissions is counted as this many."""
_LATEST_MS = 2**53
_STREAKS = 256


class Streak(NamedTuple):
    """A series of consecutive submissions that got no answer from the daemon."""

    undecided: int
    since_ms: int
    """Unix time in milliseconds of the first submission in the series."""
    opened: bool
    """Whether the circuit breaker opened during the series; False: too few failures for that."""


def streak_in(value: Any) -> Streak | None:
    """Return the unanswered submissions in a request's ``breaker`` field; None: absent or
    malformed.

    A malformed field does not make the request invalid: the job is decided all the same.
    """
    if type(value) is not dict:
        return None
    undecided, since_ms = _whole(value.get("undecided")), _whole(value.get("since_ms"))
    if not undecided or since_ms is None or since_ms > _LATEST_MS:
        return None
    return Streak(min(undecided, MOST_SUBMISSIONS), since_ms, _whole(value.get("opened")) == 1)


def _whole(value: Any) -> int | None:
    if type(value) is float and value.is_integer():  # Lua has one kind of number
        value = int(value)
    return value if type(value) is int and value >= 0 else None


class Breakers:
    """Counts what each scheduler's filters have reported about their circuit breakers."""

    def __init__(self) -> None:
        self._openings: Counter[str] = Counter()
        self._undecided: Counter[str] = Counter()
        self._last: dict[str, tuple[float, float]] = {}
        self._known: BoundedCache[tuple[str, int], Streak] = BoundedCache(_STREAKS)

    def reported(self, scheduler: str, streak: Streak, now_s: float) -> None:
        """Count the submissions of a report that earlier reports did not include. ``now_s``: Unix
        time.
        """
        of = (scheduler, streak.since_ms)
        before = self._known.get(of) or Streak(0, streak.since_ms, opened=False)
        if streak.undecided > before.undecided:
            self._undecided[scheduler] += streak.undecided - before.undecided
            self._known.put(of, streak._replace(opened=streak.opened or before.opened))
        if streak.opened and not before.opened:
            self._openings[scheduler] += 1
        self._last[scheduler] = now_s, max(0.0, now_s - streak.since_ms / 1000)

    def summary(self, schedulers: Iterable[str]) -> dict[str, dict[str, float | None]]:
        """Return the counters by scheduler; zeros and None for a scheduler that reported
        nothing."""
        return {
            name: {
                "openings": self._openings[name],
                "undecided": self._undecided[name],
                "reported_s": self._last[name][0] if name in self._last else None,
                "lasted_s": round(self._last[name][1], 3) if name in self._last else None,
            }
            for name in schedulers
        }
