"""A CPU's correction of predictions from CPU to CPU, by programs that were timed there.

The correction is one factor for all programs. It is shrunk towards 1 as far as the speeds of both
cores are known without labels, and an odd program counts no more than an unusual one. The reference
kernels are programs only between nodes of one processor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from berth.pilot.platform import LIKE_PROGRAMS, Platform
from berth.predictor.core.arrays import Floats
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
from berth.predictor.learning.programs.columns import ProfilePair

SCORE_DEVIATION = 0.07
"""Standard deviation of a CPU's factor around 1 where both cores have published scores."""
KNOWN_PROGRAMS = 4.0
"""Programs that ``PROGRAM_DEVIATION`` counts as, beside those that were timed."""
UNUSUAL = 2.0
"""Standard deviations beyond which a program's log factor counts as that many."""


def own_time_of(
    predictor: Predictor,
    pairs: Sequence[ProfilePair],
    point: Allocation,
    platforms: Mapping[str, Platform],
) -> OwnTime:
    """Return the correction of programs at ``point`` by pairs of profiles, the first of each from
    one of ``platforms``. Of reference kernels only those count that are like programs, if any."""
    like = [
        pair
        for pair in pairs
        if pair.reference.name not in suite_profiles() or pair.kernel.startswith(LIKE_PROGRAMS)
    ]
    pairs = like or pairs
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
    deviation = max(SCORE_DEVIATION, *(ratio.deviation for ratio in ratios))
    return fit_own_time(errors, tuple(pair.kernel for pair in pairs), deviation)


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


def fit_own_time(errors: Floats, kernels: tuple[str, ...], deviation: float) -> OwnTime:
    """Return the correction by labels with these log errors, each kernel with the same weight.

    ``deviation``: how well the factor is known without labels, as a standard error of log time.
    """
    most = UNUSUAL * math.hypot(deviation, PROGRAM_DEVIATION)
    of_kernel: dict[str, list[float]] = {name: [] for name in kernels}
    for error, name in zip(np.clip(errors, -most, most).tolist(), kernels, strict=True):
        of_kernel[name].append(error)
    means = [fmean(some) for some in of_kernel.values()]
    factor = sum(means) / (len(means) + (PROGRAM_DEVIATION / deviation) ** 2)
    squares = KNOWN_PROGRAMS * PROGRAM_DEVIATION**2 + sum((one - factor) ** 2 for one in means)
    spread = math.sqrt(squares / (KNOWN_PROGRAMS + len(means)))
    return OwnTime(
        log_factor=factor,
        standard_error=spread / math.sqrt(len(means) + (spread / deviation) ** 2),
        deviation=spread,
    )
