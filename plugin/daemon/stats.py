"""Counts and latencies of the answering thread. Only that thread writes them; other
threads read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter

from berth.plugin.host import HOST, Clock

_KEPT = 8_192
BOUNDS_US = (20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
"""Upper bounds of the latency histogram's buckets, in microseconds."""


class Stats:
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
