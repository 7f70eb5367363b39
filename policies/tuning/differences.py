"""Differences of metrics between two replays of the same jobs, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from berth.policies.tuning.figures import ReplayFigures, TracePart, TuningMetric

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
LEAST_BLOCKS = 4
"""Least number of weeks of jobs for which blocks are weeks, and not days."""
LEAST_PART_S = 2 * DAY_S
"""Least length of a part for which intervals are computed."""
LEVEL = 0.95
SMALLEST = 1e-9
"""Added to both metrics in a ratio, because a mean wait may be 0."""
LARGEST_LOG = 700.0
"""Largest log of a ratio whose exponential is a finite number."""


@dataclass(frozen=True, slots=True)
class PolicyDifference:
    """One metric under today's and the tuned policy, with the relative change and its 95 %
    interval."""

    metric: TuningMetric
    today: float
    then: float
    change: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Return whether the interval is finite: there were at least two days of jobs."""
        return math.isfinite(self.high)

    @property
    def better(self) -> bool:
        """Return whether the whole interval is below zero, that is, the metric improves."""
        return self.high < 0

    @property
    def worse(self) -> bool:
        """Return whether the whole interval is above zero, that is, the metric worsens."""
        return self.low > 0


def block_s_of(span_s: float) -> float:
    """Return the length in seconds of the equal blocks into which jobs are divided: about a week,
    or a day where there are less than ``LEAST_BLOCKS`` weeks."""
    about_s = WEEK_S if round(span_s / WEEK_S) >= LEAST_BLOCKS else DAY_S
    return span_s / max(1, round(span_s / about_s))


def differences(
    before: ReplayFigures, after: ReplayFigures, metrics: Sequence[TuningMetric], part: TracePart
) -> tuple[PolicyDifference, ...]:
    """Return the metrics' differences between two replays, for the jobs submitted in ``part``.

    The variance comes from all jobs: one block of submission times after another is left out of
    both replays (jackknife; Efron and Tibshirani 1993, chapter 11), because jobs of one week are
    not independent. It is scaled to the length of the part. Blocks are few, so the interval (of the
    log of the ratio) has Student's t. It is infinite where the part is shorter than
    ``LEAST_PART_S``.
    """
    replays = (before, after)
    ends_s = [figures.submit_s[[0, -1]] for figures in replays if len(figures.submit_s)]
    first_s, last_s = (float(np.min(ends_s)), float(np.max(ends_s))) if ends_s else (0.0, 0.0)
    span_s = last_s - first_s
    part_s = min(part.end_s, last_s) - max(part.begin_s, first_s)
    parts = [figures.within(part) for figures in replays]
    half_widths = np.full(len(metrics), math.inf)
    if part_s >= LEAST_PART_S:
        blocks = round(span_s / block_s_of(span_s))
        own = [
            np.minimum((figures.submit_s - first_s) * blocks / span_s, blocks - 1).astype(int)
            for figures in replays
        ]
        left_out = []
        for block in range(blocks):
            rest = [f.rows(np.flatnonzero(o != block)) for f, o in zip(replays, own, strict=True)]
            left_out.append([_log_ratio(*map(metric.of, rest)) for metric in metrics])
        variance = (blocks - 1) * np.var(left_out, axis=0) * span_s / part_s
        half_widths = student_t(blocks - 1) * np.sqrt(variance)
    compared = []
    for metric, half_width in zip(metrics, half_widths.tolist(), strict=True):
        now, then = map(metric.of, parts)
        log_ratio = _log_ratio(now, then)
        ends = (log_ratio + shift for shift in (0.0, -half_width, half_width))
        change, low, high = (math.expm1(end) if end < LARGEST_LOG else math.inf for end in ends)
        compared.append(PolicyDifference(metric, now, then, change, low, high))
    return tuple(compared)


def _log_ratio(now: float, then: float) -> float:
    """Return the natural log of then / now; two metrics of zero are equal."""
    return math.log((then + SMALLEST) / (now + SMALLEST))


def student_t(freedom: int) -> float:
    """Return the upper end of Student's t ``LEVEL`` interval (Abramowitz and Stegun, 26.7.5).

    Its error is 1 % with 2 degrees of freedom, and less with more.
    """
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return float(sum(term / freedom**power for power, term in enumerate(terms)))
