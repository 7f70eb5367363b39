"""A CPU's correction of predictions from CPU to CPU, by programs that were timed there.

The correction is one factor for all programs. It is shrunk towards 1 as far as the speeds of both
cores are known without labels, so that the first label already helps and one odd program hardly
counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from berth.pilot.platform import Platform
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import NORMAL_90, group_quantile
from berth.predictor.families.program.between_cpus import (
    PROGRAM_DEVIATION,
    SHARE_WEIGHT,
    UNKNOWN_DEVIATION,
    core_ratio,
)
from berth.predictor.families.program.bundle import OwnTime
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.families.program.time_only import mispredicts_per_instruction
from berth.predictor.hardware.ceilings import Allocation
from berth.predictor.learning.programs.columns import ProfilePair
from berth.predictor.learning.programs.prior import ENOUGH_KERNELS, kernel_weights

SCORE_DEVIATION = 0.07
"""Standard deviation of a CPU's factor around 1 where both cores have published scores."""
LABEL_SCALE = 0.25
"""Scale of the Cauchy distribution of programs around a CPU's factor, in log time."""
LEAST_DEVIATION = 0.02
"""Least standard deviation of programs around the factor."""
_FACTORS = np.arange(-3.0, 3.0001, 0.01)


def log_errors(
    predictor: Predictor,
    pairs: Sequence[ProfilePair],
    point: Allocation,
    home: Mapping[str, Platform],
    share_weight: float = SHARE_WEIGHT,
) -> Floats:
    """Return [pairs] log of measured time at ``point`` over time predicted from CPU to CPU.

    ``home`` has the platforms of the pairs' first profiles by name.
    """

    def predicted(pair: ProfilePair) -> float:
        return predictor.between_cpus(
            pair.reference, point, home[pair.reference.platform], share_weight
        )

    return np.array([math.log(pair.target_s) - predicted(pair) for pair in pairs])


def start_deviation(
    pairs: Sequence[ProfilePair], platform: Platform, home: Mapping[str, Platform]
) -> float:
    """Return how well the speeds of the cores are known without labels, as a standard error of log
    time."""
    ratios = [
        core_ratio(
            home[pair.reference.platform], platform, mispredicts_per_instruction(pair.reference)
        )
        for pair in pairs
    ]
    return factor_deviation(
        max(UNKNOWN_DEVIATION if ratio is None else ratio.deviation for ratio in ratios)
    )


def factor_deviation(core_deviation: float) -> float:
    """Return the standard deviation of a CPU's log factor around 0, where the ratio of core speeds
    is known with this standard error."""
    return max(SCORE_DEVIATION, core_deviation)


def fit_own_time(
    errors: Floats, kernels: tuple[str, ...], deviation: float, share_weight: float = SHARE_WEIGHT
) -> OwnTime:
    """Return the correction by labels with these log errors, each kernel with the same weight.

    ``deviation``: that of ``start_deviation``.
    """
    count = len(set(kernels))
    factor = _log_factor(errors, kernels, deviation)
    spread = PROGRAM_DEVIATION
    if count >= ENOUGH_KERNELS:
        left_out = np.abs(left_out_errors(errors, kernels, deviation))
        spread = max(LEAST_DEVIATION, group_quantile(list(left_out), kernels) / NORMAL_90)
    return OwnTime(
        log_factor=factor,
        standard_error=spread / math.sqrt(count + (spread / deviation) ** 2),
        deviation=spread,
        share_weight=share_weight,
    )


def left_out_errors(errors: Floats, kernels: tuple[str, ...], deviation: float) -> Floats:
    """Return [rows] log errors by a correction that is fitted without the row's kernel."""
    names = np.array(kernels)
    left_out = np.zeros(len(errors))
    for name in set(kernels):
        held = names == name
        rest = tuple(names[~held])
        left_out[held] = errors[held] - _log_factor(errors[~held], rest, deviation)
    return left_out


def _log_factor(errors: Floats, kernels: tuple[str, ...], deviation: float) -> float:
    """Return the most probable log factor, under a normal prior and Cauchy-distributed errors."""
    if not kernels:
        return 0.0
    weights = kernel_weights(kernels) * len(set(kernels))
    loss = (_FACTORS / deviation) ** 2 / 2
    for error, weight in zip(errors, weights, strict=True):
        loss = loss + weight * np.log1p(((error - _FACTORS) / LABEL_SCALE) ** 2)
    return float(_FACTORS[int(loss.argmin())])
