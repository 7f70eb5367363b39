"""How long the machine itself keeps a program waiting: what no server on it can be better than."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import accumulate

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

    One process for each core only reads the clock; the figure is that of the worst.
    """
    words = [sys.executable, "-c", _SPIN, str(seconds)]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in os.sched_getaffinity(0)]
    found = [json.loads(process.communicate()[0]) for process in running]
    return max(1e3 * waited_s(gaps, of_s, 1 - quantile) for of_s, gaps in found)


def waited_s(gaps_s: Sequence[float], of_s: float, share: float) -> float:
    """The wait that this share of moments in ``of_s`` seconds exceeds; a moment within a gap waits
    until its end."""
    longest_first = sorted(gaps_s, reverse=True)
    # Beyond a wait w lie sum(gap - w) seconds of moments, over the gaps that are longer.
    waits = ((total_s - share * of_s) / k for k, total_s in enumerate(accumulate(longest_first), 1))
    return max((0.0, *waits))
