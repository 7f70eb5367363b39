"""Counts and latencies of the answering thread. Only that thread writes; others only read."""

from __future__ import annotations

import time
from array import array
from collections import Counter

_KEPT = 8_192


class Stats:
    """Counters by name, and the last ``8192`` latencies of decisions in microseconds."""

    def __init__(self) -> None:
        self.started_s = time.monotonic()
        self.counts: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self._latencies_us = array("I")
        self._next = 0

    def decided(self, code: str, action: str, latency_us: int) -> None:
        """Count one answer to ``decide``."""
        self.counts["decisions"] += 1
        self.counts[action] += 1
        self.codes[code] += 1
        if len(self._latencies_us) < _KEPT:
            self._latencies_us.append(latency_us)
        else:
            self._latencies_us[self._next] = latency_us
            self._next = (self._next + 1) % _KEPT

    def summary(self) -> dict[str, object]:
        """Everything counted, as plain data."""
        ordered = sorted(self._latencies_us)
        return {
            "uptime_s": round(time.monotonic() - self.started_s, 3),
            "counts": dict(self.counts),
            "codes": dict(self.codes),
            "latency_us": {
                "p50": _quantile(ordered, 0.5),
                "p99": _quantile(ordered, 0.99),
                "max": ordered[-1] if ordered else None,
            },
        }


def _quantile(ordered: list[int], q: float) -> int | None:
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else None
