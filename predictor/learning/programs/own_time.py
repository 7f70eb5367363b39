"""A CPU's correction of predictions from CPU to CPU, by programs that were timed there.

The correction is one factor for all programs. It is shrunk towards 1 as far as the speeds of both
cores are known without labels, so that the first label already helps and one odd program hardly
counts. The reference kernels tell a whole program's factor no better than a benchmark does, except
between nodes of one processor.
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
    compared_by_kernels,
    core_ratio,
)
from berth.predictor.families.program.bundle import OwnTime
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.families.program.reading import mispredicts_per_instruction
from berth.predictor.families.program.suite import suite_profiles
from berth.predictor.hardware.ceilings import Allocation
from berth.predictor.hardware.core_speed import BENCHMARK_DEVIATION
from berth.predictor.learning.programs.columns import ProfilePair
from berth.predictor.learning.programs.prior import ENOUGH_KERNELS, kernel_weights

SCORE_DEVIATION = 0.07
"""Standard deviation of a CPU's factor around 1 where both cores have published scores."""
LABEL_SCALE = 0.25
"""Scale of the Cauchy distribution of programs around a CPU's factor, in log time."""
LEAST_DEVIATION = 0.02
"""Least standard deviation of programs around the factor."""
_FACTORS = np.arange(-3.0, 3.0001, 0.01)


def own_time_of(
    predictor: Predictor,
    pairs: Sequence[ProfilePair],
    point: Allocation,
    platforms: Mapping[str, Platform],
) -> OwnTime:
    """Return the correction of programs at ``point`` by pairs of profiles, the first of each from
    one of ``platforms``."""
    homes = [platforms[pair.reference.platform] for pair in pairs]
    predicted = [
        predictor.between_cpus(pair.reference, point, home)
        for pair, home in zip(pairs, homes, strict=True)
    ]
    errors = np.log([pair.target_s for pair in pairs]) - np.array(predicted)
    ratios = [
        core_ratio(home, point.platform, mispredicts_per_instruction(pair.reference))
        for pair, home in zip(pairs, homes, strict=True)
    ]
    deviation = max(ratio.deviation for ratio in ratios)
    kernels = tuple(pair.kernel for pair in pairs)
    if are_benchmark(pairs, point.platform, platforms):
        return by_benchmark(errors, kernels, deviation)
    return fit_own_time(errors, kernels, max(SCORE_DEVIATION, deviation))


def are_benchmark(
    pairs: Sequence[ProfilePair], platform: Platform, platforms: Mapping[str, Platform]
) -> bool:
    """Return whether all pairs are runs of the reference kernels on CPUs that these compare no
    better than published scores do."""
    return all(
        pair.reference.name in suite_profiles()
        and not compared_by_kernels(platforms[pair.reference.platform], platform)
        for pair in pairs
    )


def by_benchmark(errors: Floats, kernels: tuple[str, ...], deviation: float) -> OwnTime:
    """Return the correction of whole programs by the reference kernels' log errors: none where the
    speeds of both cores are published (``deviation`` 0)."""
    fitted = fit_own_time(errors, kernels, UNSHRUNK)
    off = math.hypot(BENCHMARK_DEVIATION, fitted.standard_error)
    trust = deviation**2 / (deviation**2 + off**2)
    return OwnTime(
        log_factor=trust * fitted.log_factor,
        standard_error=math.sqrt(trust) * off,
        deviation=PROGRAM_DEVIATION,
    )


UNSHRUNK = 10.0
"""Standard deviation of a factor of which nothing is known without labels."""


def fit_own_time(errors: Floats, kernels: tuple[str, ...], deviation: float) -> OwnTime:
    """Return the correction by labels with these log errors, each kernel with the same weight.

    ``deviation``: how well the factor is known without labels, as a standard error of log time.
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
