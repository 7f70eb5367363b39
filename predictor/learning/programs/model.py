"""The program model: a calibrated roofline prior times a learned residual, both in log time.

On a platform with few labels (measured run times) the prior of its kind, CPU or GPU, is shrunk
towards the labels.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xgboost

from berth.pilot.errors import UsageError
from berth.pilot.progress import steps
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import DIFFICULTY_FLOOR, group_quantile
from berth.predictor.families.program.bundle import firm
from berth.predictor.families.program.estimate import CALIBRATED_KERNELS, NEW_PLATFORM_WIDENING
from berth.predictor.learning.programs.columns import Columns

MODE_WIDTH = 0.15
"""Standard deviation, in log time, of the kernel that the density of residuals is smoothed by."""
CARRIES = tuple(i / 10 for i in range(11))
"""Values tried for ``Prior.carry``: the share of the reference's inefficiency assumed on the
target."""
REDUCTIONS_S = tuple(i * 5e-6 for i in range(11))
"""Values tried for ``Prior.reduction_s``: seconds per reduction result."""
LEAST_REST = 0.1
"""Least share of a measured time that is taken as the parallel part."""
THREADS = 1
"""Threads of xgboost: one gives the same bits on every machine, and the data sets are small."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Hyper-parameters of a gradient-boosted residual model, chosen by inner cross-validation
    only."""

    rounds: int = 200
    depth: int = 3
    rate: float = 0.05
    least_weight: float = 3.0
    ridge: float = 5.0
    row_share: float = 0.8
    column_share: float = 0.5
    dead_zone: float = 0.0
    """Predicted log residuals smaller than this count as 0."""

    def as_dict(self) -> dict[str, float]:
        """Return the settings by name, as the manifest stores them."""
        return {key: float(value) for key, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Prior:
    """Calibrated roofline: ``t = fixed + reduction_s * reductions + parallel * exp(bias) *
    efficiency**carry``.

    ``fixed``, ``parallel``: seconds of the target's roofline; ``reductions``: results to fetch;
    ``efficiency``: reference time over the reference's roofline time.
    """

    bias: float
    carry: float
    reduction_s: float = 0.0

    def fixed_s(self, data: Columns) -> Floats:
        """Return [rows] seconds of the prediction that do not depend on the program's
        efficiency."""
        return data.fixed_s + self.reduction_s * data.reductions

    def log_time(self, data: Columns, residual: Floats | float = 0.0) -> Floats:
        """Return the predicted log time of every row, with its parallel part multiplied by
        ``exp(residual)``."""
        stretch = np.exp(self.bias + self.carry * data.log_efficiency + residual)
        return np.asarray(np.log(self.fixed_s(data) + data.parallel_s * stretch))

    def residual(self, data: Columns) -> tuple[Floats, Floats]:
        """Return, for each row, the log factor from the predicted to the measured parallel part,
        and its weight.

        The weight is the parallel part's share of the measured time: where nearly all of the time
        is fixed, the factor is poorly known.
        """
        times = np.exp(data.log_time)
        rest = np.maximum(times - self.fixed_s(data), LEAST_REST * times)
        prior = self.bias + self.carry * data.log_efficiency
        return np.log(rest / data.parallel_s) - prior, rest / times


@dataclass(frozen=True, slots=True)
class Model:
    """A calibrated roofline (prior) with the ensemble that corrects it."""

    prior: Prior
    residual: xgboost.XGBRegressor
    dead_zone: float
    """Predicted log residuals smaller than this count as 0."""

    def log_time(self, data: Columns) -> Floats:
        """Return the predicted natural log of seconds of every row."""
        raw = np.asarray(self.residual.predict(data.features), dtype=np.float64)
        return self.prior.log_time(data, firm(raw, self.dead_zone))


def fit_prior(data: Columns) -> Prior:
    """Return the calibrated roofline under which most kernels have log residuals near zero.

    Kernels are weighted equally. The mode is fitted instead of the mean: most programs run close to
    the roofline and some far above. The residual model learns those outliers, so the prior need not
    shift for them.
    """
    check(data)
    weights = kernel_weights(data.kernels)
    reductions = REDUCTIONS_S if data.reductions.any() else (0.0,)
    centre = float(np.median(data.log_time - np.log(data.fixed_s + data.parallel_s)))
    coarse = centre + np.arange(-1.5, 1.5, 0.05)
    best, most = Prior(0.0, 0.0), -np.inf
    for carry in CARRIES:
        for reduction_s in reductions:
            densest, density = _densest(data, weights, coarse, carry, reduction_s)
            if density > most + 1e-9:
                best, most = densest, density
    fine = best.bias + np.arange(-0.05, 0.05, 0.01)
    return _densest(data, weights, fine, best.carry, best.reduction_s)[0]


def _densest(
    data: Columns, weights: Floats, biases: Floats, carry: float, reduction_s: float
) -> tuple[Prior, float]:
    """Return the prior with the bias (one of ``biases``) that puts most log residuals near zero,
    and that density."""
    fixed = data.fixed_s + reduction_s * data.reductions
    parallel = data.parallel_s * np.exp(carry * data.log_efficiency)
    predicted = np.log(fixed + np.exp(biases)[:, None] * parallel)
    apart = (data.log_time - predicted) / MODE_WIDTH
    density = (weights * np.exp(-0.5 * apart**2)).sum(axis=1)
    peak = int(density.argmax())
    return Prior(float(biases[peak]), float(carry), float(reduction_s)), float(density[peak])


def fit(data: Columns, settings: Settings, seed: int) -> Model:
    """Return the calibrated roofline and its residual model, fitted to ``data``.

    Raises UsageError for labels or features that cannot be learnt from.
    """
    prior = fit_prior(data)
    labels, shares = prior.residual(data)
    weights = shares * kernel_weights(data.kernels)
    ensemble = fit_ensemble(data.features, labels, weights, settings, seed)
    return Model(prior, ensemble, settings.dead_zone)


def fit_ensemble(
    features: Floats,
    labels: Floats,
    weights: Floats,
    settings: Settings,
    seed: int,
) -> xgboost.XGBRegressor:
    """Return a gradient-boosted ensemble (xgboost) fitted to the weighted labels.

    One ensemble has one output, as ensembles of several outputs convert wrongly to ONNX.
    """
    arguments: dict[str, Any] = {
        "n_estimators": settings.rounds,
        "max_depth": settings.depth,
        "learning_rate": settings.rate,
        "min_child_weight": settings.least_weight,
        "reg_lambda": settings.ridge,
        "subsample": settings.row_share,
        "colsample_bytree": settings.column_share,
        "objective": "reg:squarederror",
        "tree_method": "exact",
        "base_score": 0.0,
        "random_state": seed,
        "n_jobs": THREADS,
    }
    model = xgboost.XGBRegressor(**arguments)
    model.fit(features, labels, sample_weight=weights * (len(weights) / weights.sum()))
    return model


def check(data: Columns) -> None:
    """Raise UsageError where a label is not finite or every counter is constant."""
    if not np.isfinite(data.log_time).all():
        raise UsageError("a label is not a number; every measured time must be positive and finite")
    usable = ~np.isnan(data.features)
    spread = np.ptp(np.where(usable, data.features, 0.0), axis=0)
    if not (spread > 1e-9).any():
        raise UsageError(
            "every counter is the same in all profiles: there is nothing to learn from",
            hint="train on profiles of different programs",
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
CARRY_DEVIATION = 0.1
"""Standard deviation of a platform's ``carry`` around the value of its kind."""
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


def shrunk_prior(data: Columns, start: Prior) -> Prior:
    """Return the most probable calibration (bias, carry, reduction) given the rows and the prior
    ``start``.

    Kernels are weighted equally; without rows ``start`` is returned.
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
            place = int(loss.argmin())
            if loss[place] < least - 1e-9:
                best, least = Prior(float(biases[place]), carry, reduction_s), float(loss[place])
    return best


def honest_quantile(data: Columns, start: Prior, kind_quantile: float) -> float:
    """Return the 90 % quantile of scaled errors, from kernels left out, for a platform with few
    measured times.

    A scaled error is the log error over ``DIFFICULTY_FLOOR``. With ``ENOUGH_KERNELS`` kernels it is
    the quantile of their own errors, each kernel left out. Fewer kernels give no finite quantile:
    then it is the quantile for platforms without labels, or the largest error seen if that is
    larger.
    """
    scores = left_out_scores(data, start)
    if len(set(data.kernels)) >= ENOUGH_KERNELS:
        return float(max(group_quantile(list(scores), data.kernels), 1e-3))
    without = kind_quantile * NEW_PLATFORM_WIDENING * TYPICAL_DIFFICULTY / DIFFICULTY_FLOOR
    return float(max([without, *scores.tolist()]))


def left_out_scores(data: Columns, start: Prior) -> Floats:
    """Return [rows] ``|log error| / DIFFICULTY_FLOOR`` by a prior fitted without the row's
    kernel."""
    scores = np.zeros(len(data))
    names = np.array(data.kernels)
    for name in steps("kernels left out in turn", sorted(set(data.kernels))):
        held = np.flatnonzero(names == name).tolist()
        prior = shrunk_prior(data.take(np.flatnonzero(names != name).tolist()), start)
        rows = data.take(held)
        scores[held] = np.abs(rows.log_time - prior.log_time(rows)) / DIFFICULTY_FLOOR
    return scores


def _misfit(
    data: Columns, weights: Floats, biases: Floats, carry: float, reduction_s: float
) -> Floats:
    """Return the negative log likelihood of the rows for each candidate bias."""
    base = Prior(0.0, carry, reduction_s)
    stretch = np.exp(biases[:, None] + carry * data.log_efficiency)
    log_time = np.log(base.fixed_s(data) + data.parallel_s * stretch)
    apart = (data.log_time - log_time) / LABEL_SCALE
    return np.asarray(np.log1p(apart**2) @ weights)
