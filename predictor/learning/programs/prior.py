"""The calibrated roofline of a platform, shrunk towards the few labels (measured run times) that it
has."""

from __future__ import annotations

import math

import numpy as np

from berth.pilot.progress import steps
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import DIFFICULTY_FLOOR, group_quantile
from berth.predictor.families.program.bundle import Calibration, Formula
from berth.predictor.families.program.estimate import CALIBRATED_KERNELS, NEW_PLATFORM_WIDENING
from berth.predictor.learning.programs.columns import LabelRows

REDUCTIONS_S = tuple(i * 5e-6 for i in range(11))
"""Values tried for ``Formula.reduction_s``: seconds per reduction result."""


def log_times(formula: Formula, data: LabelRows, residual: Floats | float = 0.0) -> Floats:
    """Return the predicted log time of every row; ``residual``: what a labelled platform's model
    learnt."""
    return formula.log_time(
        data.fixed_s, data.parallel_s, data.reductions, data.log_efficiency, residual
    )


def kernel_weights(kernels: tuple[str, ...]) -> Floats:
    """Return row weights with sum 1 in which every kernel has the same total weight."""
    counts = {kernel: kernels.count(kernel) for kernel in set(kernels)}
    return np.array([1.0 / (counts[k] * len(counts)) for k in kernels])


BIAS_DEVIATION = 0.15
"""Standard deviation of a platform's bias around the bias of its kind, in log time.

With each of the two labelled platforms treated as new, values of 0.1 to 0.2 do not increase errors
from the first label on (`python -m lab few-shot`).
"""
REDUCTION_DEVIATION_S = 2e-5
"""Standard deviation of a platform's ``reduction_s`` around the value of its kind, in seconds."""
LABEL_SCALE = 0.3
"""Scale of the Cauchy distribution of log errors around the prior, which limits the pull of
outliers."""
TYPICAL_DIFFICULTY = 0.8
"""Mean of ``core.intervals.difficulty`` over the training kernels."""
ENOUGH_KERNELS = CALIBRATED_KERNELS
"""Number of kernels from which on the interval comes from the platform's own labels."""
_BIASES = np.arange(-2.0, 2.0001, 0.02)
"""Differences from the kind's bias that are tried."""


def shrunk_prior(data: LabelRows, start: Formula) -> Formula:
    """Return the most probable calibration (bias, reduction) given the rows and the prior
    ``start``.

    Kernels are weighted equally; without rows ``start`` is returned.
    """
    if not len(data):
        return start
    weights = kernel_weights(data.kernels) * len(set(data.kernels))
    reductions = {start.reduction_s, *(REDUCTIONS_S if data.reductions.any() else ())}
    biases = start.bias + _BIASES
    stretch = np.exp(biases[:, None] + start.carry * data.log_efficiency)
    best, least = start, math.inf
    for reduction_s in sorted(reductions):
        fixed_s = data.fixed_s + reduction_s * data.reductions
        apart = (data.log_time - np.log(fixed_s + data.parallel_s * stretch)) / LABEL_SCALE
        loss = (
            np.log1p(apart**2) @ weights
            + (
                (_BIASES / BIAS_DEVIATION) ** 2
                + ((reduction_s - start.reduction_s) / REDUCTION_DEVIATION_S) ** 2
            )
            / 2
        )
        place = int(loss.argmin())
        if loss[place] < least - 1e-9:
            changed = {"bias": float(biases[place]), "reduction_s": reduction_s}
            best, least = start.model_copy(update=changed), float(loss[place])
    return best


def honest_quantile(data: LabelRows, kind: Calibration) -> float:
    """Return the 90 % quantile of scaled errors for a platform with few measured times.

    With ``ENOUGH_KERNELS`` kernels it is that of their own errors, each left out. Fewer kernels
    give no finite quantile: then it is that for platforms without labels.
    """
    if len(set(data.kernels)) >= ENOUGH_KERNELS:
        return max(group_quantile(left_out_scores(data, kind).tolist(), data.kernels), 1e-3)
    return kind.score_quantile * NEW_PLATFORM_WIDENING * TYPICAL_DIFFICULTY / DIFFICULTY_FLOOR


def left_out_scores(data: LabelRows, start: Formula) -> Floats:
    """Return [rows] ``|log error| / DIFFICULTY_FLOOR`` by a prior fitted without the row's
    kernel."""
    scores = np.zeros(len(data))
    names = np.array(data.kernels)
    for name in steps("kernels left out in turn", sorted(set(data.kernels))):
        held = np.flatnonzero(names == name).tolist()
        prior = shrunk_prior(data.take(np.flatnonzero(names != name).tolist()), start)
        rows = data.take(held)
        scores[held] = np.abs(rows.log_time - log_times(prior, rows)) / DIFFICULTY_FLOOR
    return scores
