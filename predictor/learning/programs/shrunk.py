"""A prior for a platform with few labels: the kind's own, moved as far as the labels are worth."""

from __future__ import annotations

import math

import numpy as np

from berth.pilot.progress import steps
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import DIFFICULTY_FLOOR, group_quantile
from berth.predictor.families.program.estimate import CALIBRATED_KERNELS, NEW_PLATFORM_WIDENING
from berth.predictor.learning.programs.columns import Columns
from berth.predictor.learning.programs.model import CARRIES, REDUCTIONS_S, Prior, kernel_weights

BIAS_DEVIATION = 0.15
"""Of platforms of a kind around the kind's bias, in log time. With the two labelled platforms each
as new, any of 0.1 to 0.2 does no harm from the first label on (`python -m lab few-shot`).
"""
CARRY_DEVIATION = 0.1
REDUCTION_DEVIATION_S = 2e-5
LABEL_SCALE = 0.3
"""Of a Cauchy distribution of log errors around the prior: odd kernels move it little."""
TYPICAL_DIFFICULTY = 0.8
"""Mean of ``conformal.difficulty`` over the training kernels."""
ENOUGH_KERNELS = CALIBRATED_KERNELS
"""From so many on the interval is the labels' own."""
_BIASES = np.arange(-2.0, 2.0001, 0.02)


def shrunk_prior(data: Columns, start: Prior) -> Prior:
    """The most probable bias, carry and reduction given ``start`` and the rows (maybe none).

    Every kernel weighs the same. The same rows give the same prior.
    """
    if not len(data):
        return start
    weights = kernel_weights(data.kernels) * len(set(data.kernels))
    best, least = start, math.inf
    reductions = REDUCTIONS_S if data.reductions.any() else (start.reduction_s,)
    biases = start.bias + _BIASES
    for carry in sorted({*CARRIES, start.carry}):
        for reduction_s in sorted({*reductions, start.reduction_s}):
            loss = (
                ((biases - start.bias) / BIAS_DEVIATION) ** 2
                + ((carry - start.carry) / CARRY_DEVIATION) ** 2
                + ((reduction_s - start.reduction_s) / REDUCTION_DEVIATION_S) ** 2
            ) / 2
            loss = loss + _misfit(data, weights, biases, carry, reduction_s)
            found = int(loss.argmin())
            if loss[found] < least - 1e-9:
                best, least = Prior(float(biases[found]), carry, reduction_s), float(loss[found])
    return best


def honest_quantile(data: Columns, start: Prior, kind_quantile: float) -> float:
    """The interval's quantile of a platform with these labels, over a difficulty of the floor.

    From nine kernels on that of their own errors, each kernel left out. With fewer no finite
    quantile can be had from them: what holds for platforms without labels, and at least the worst
    error seen.
    """
    scores = left_out_scores(data, start)
    if len(set(data.kernels)) >= ENOUGH_KERNELS:
        return float(max(group_quantile(list(scores), data.kernels), 1e-3))
    without = kind_quantile * NEW_PLATFORM_WIDENING * TYPICAL_DIFFICULTY / DIFFICULTY_FLOOR
    return float(max([without, *scores.tolist()]))


def left_out_scores(data: Columns, start: Prior) -> Floats:
    """``|log error| / DIFFICULTY_FLOOR`` of every row by a prior without its kernel."""
    found = np.zeros(len(data))
    names = np.array(data.kernels)
    for name in steps("kernels left out in turn", sorted(set(data.kernels))):
        held = np.flatnonzero(names == name).tolist()
        prior = shrunk_prior(data.take(np.flatnonzero(names != name).tolist()), start)
        rows = data.take(held)
        found[held] = np.abs(rows.log_time - prior.log_time(rows)) / DIFFICULTY_FLOOR
    return found


def _misfit(
    data: Columns, weights: Floats, biases: Floats, carry: float, reduction_s: float
) -> Floats:
    base = Prior(0.0, carry, reduction_s)
    stretch = np.exp(biases[:, None] + carry * data.log_efficiency)
    log_time = np.log(base.fixed_s(data) + data.parallel_s * stretch)
    apart = (data.log_time - log_time) / LABEL_SCALE
    return np.asarray(np.log1p(apart**2) @ weights)
