"""The value of one more pilot run for choosing the fastest platform, in closed form.

The expected value of sample information for the best of correlated normals (Raiffa and Schlaifer
1961) after one measurement: the knowledge gradient with correlated beliefs (Frazier, Powell and
Dayanik, "The knowledge-gradient policy for correlated normal beliefs", 2009, algorithm 1). All
times are natural logs; less is better. The submit path uses this module, so it does not import
numpy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

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


class Place(NamedTuple):
    """A place where a run could go, with the expected log time there."""

    platform: str
    is_gpu: bool
    mean: float
    """Expected log time, or another score that differs from it by a constant."""
    deviation: float
    """Standard deviation of the log time; 0: the time is known."""


def slopes(places: Sequence[Place], run: int) -> list[float]:
    """Return, for each place, how far its expected log time moves if a run at place ``run`` is one
    deviation slower."""
    candidate = places[run]
    seen = math.hypot(candidate.deviation, RUN_NOISE)
    return [
        _correlation(candidate, other) * candidate.deviation * other.deviation / seen
        for other in places
    ]


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


def value_of_run(places: Sequence[Place], run: int) -> float:
    """Return by how much a run at place ``run`` lowers the expected log time of the place chosen
    afterwards.

    The value is scaled by ``REGRET_SHARE``; 0 where nothing can be learnt.
    """
    means = [place.mean for place in places]
    least = expected_least(means, slopes(places, run))
    return REGRET_SHARE * max(0.0, min(means) - least)


def _correlation(first: Place, second: Place) -> float:
    """Return the correlation of the log errors of two places."""
    if first.platform == second.platform:
        return 1.0
    return GPU_CORRELATION if first.is_gpu and second.is_gpu else OTHER_CORRELATION


def _below(z: float) -> float:
    """Return the standard normal distribution function at ``z``."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def _density(z: float) -> float:
    """Return the standard normal density at ``z``; 0 where ``z`` is infinite."""
    return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) if math.isfinite(z) else 0.0
