"""How long the machine itself keeps a program waiting: what no server on it can be better than."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

_SPIN = """
import json, sys, time
gaps, last = [], time.perf_counter()
began, end = last, last + float(sys.argv[1])
while last < end:
    now = time.perf_counter()
    if now - last > 1e-4:
        gaps.append(now - last)
    last = now
print(json.dumps([last - began, gaps]))
"""


def stalled_ms(seconds: float, quantile: float = 0.99) -> float:
    """What a program that is always ready waits at a random moment, at this quantile.

    One process for each core only reads the clock; the worst of them is told.
    """
    words = [sys.executable, "-c", _SPIN, str(seconds)]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in os.sched_getaffinity(0)]
    found = [json.loads(process.communicate()[0]) for process in running]
    return max(1e3 * waited_s(gaps, of_s, 1 - quantile) for of_s, gaps in found)


def waited_s(gaps_s: Sequence[float], of_s: float, share: float) -> float:
    """The wait that this share of moments in ``of_s`` seconds exceeds; a moment within a gap waits
    until its end."""
    low, high = 0.0, max(gaps_s, default=0.0)
    for _ in range(50):
        middle = (low + high) / 2
        longer_s = sum(max(0.0, gap - middle) for gap in gaps_s)
        low, high = (middle, high) if longer_s > share * of_s else (low, middle)
    return high
