"""The value of one more pilot run for choosing the fastest platform, in closed form.

The expected value of sample information for the best of correlated normals (Raiffa and Schlaifer
1961) after one measurement: the knowledge gradient with correlated beliefs (Frazier, Powell and
Dayanik, "The knowledge-gradient policy for correlated normal beliefs", 2009, algorithm 1). All
times are natural logs; less is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

GPU_CORRELATION = 0.85
"""Correlation of the log errors of two GPUs; on held-out AIWC applications: 0.87 to 0.92."""
OTHER_CORRELATION = 0.1
"""Correlation of the log errors of any other two platforms.

Measured: two CPUs 0.06 to 0.15, CPU and GPU 0 to 0.03 (held-out AIWC applications); Quartz and V100
0.19.
"""
REGRET_SHARE = 0.4
"""Log regret observed on held-out AIWC applications over the regret that the Gaussian model
expected."""
RUN_NOISE = 0.05
"""Standard deviation of log time of one run around the workload's typical time."""


def expected_least(means: Sequence[float], moved: Sequence[float]) -> float:
    """Return the expected lowest log time over all places after a run that moves each mean by
    ``moved`` times z.

    z is standard normal. The value is exact: the integral over the lower envelope of the lines
    ``mean + moved * z``.
    """
    lines = sorted(zip(moved, means, strict=True), key=lambda line: (-line[0], line[1]))
    envelope: list[tuple[float, float]] = []
    begins: list[float] = []
    for slope, mean in lines:
        if envelope and slope == envelope[-1][0]:
            continue  # the first of equal slopes is the lower
        start = -math.inf
        while envelope:
            top, level = envelope[-1]
            start = (mean - level) / (top - slope)
            if start > begins[-1]:
                break
            envelope.pop()
            begins.pop()
            start = -math.inf
        envelope.append((slope, mean))
        begins.append(start)
    ends = [*begins[1:], math.inf]
    return sum(
        mean * (_below(end) - _below(start)) + slope * (_density(start) - _density(end))
        for (slope, mean), start, end in zip(envelope, begins, ends, strict=True)
    )


def _below(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def _density(z: float) -> float:
    """Return the standard normal density at ``z``; 0 where ``z`` is infinite."""
    return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) if math.isfinite(z) else 0.0
