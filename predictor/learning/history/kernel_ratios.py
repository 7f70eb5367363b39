"""How much longer programs take on one kind of hardware than on another, by benchmark kernels.

``berth site calibrate`` runs the same kernels on each kind. A program is not a kernel: its log
ratio is expected to be as far from the kernels' mean as kernels are from each other, and the mean
itself is uncertain, because programs are another mix of work than the kernels. With the kernels of
some applications of AIWC in place of benchmark kernels, such 90 % intervals hold the ratios of
another application's kernels in 87 % (CPUs) and 91 % (GPUs) of cases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from berth.pilot.platform import Platform

LEAST_KERNELS = 8
"""Kernels that both platforms must have run for their times to say anything of programs."""
MEAN_DEVIATION = 0.2
"""Standard error of the mean log ratio of programs by that of kernels."""
LEAST_SPREAD = 0.2
"""Least standard deviation of programs' log ratios around their mean."""


class Population(NamedTuple):
    """What is known of the log ratios of programs' times on two platforms before any of them ran.

    The standard deviation between programs has a half-normal distribution.
    """

    mean: float
    mean_deviation: float
    """Scale of the error of ``mean``."""
    spread: float
    """Scale of the standard deviation between programs."""
    kernels: int = 0
    """Number of benchmark kernels behind it; 0: nothing is known."""


UNKNOWN = Population(0.0, 1.0, 0.5)
"""The same of any two platforms."""


def by_kernels(platform: Platform, other: Platform) -> Population:
    """Return what the kernels that both platforms ran say of programs' time on ``platform`` over
    that on ``other``; ``UNKNOWN`` where they are too few."""
    ours, theirs = platform.signature.kernel_times_s, other.signature.kernel_times_s
    return population_of(
        [math.log(ours[name] / theirs[name]) for name in sorted(ours.keys() & theirs.keys())]
    )


def population_of(log_ratios: Sequence[float]) -> Population:
    """Return what is known of programs by the log ratios of kernels; ``UNKNOWN`` where they are
    too few."""
    if len(log_ratios) < LEAST_KERNELS:
        return UNKNOWN
    spread = max(stdev(log_ratios), LEAST_SPREAD)
    return Population(fmean(log_ratios), MEAN_DEVIATION, spread, len(log_ratios))
