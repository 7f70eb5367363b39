"""The model of programs: a calibrated roofline prior times a learned residual, both in log time.

On a platform with few labels the prior is its kind's own, moved as far as the labels are worth.
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
REDUCTIONS_S = tuple(i * 5e-6 for i in range(11))
"""Values that are tried: shares of the reference's inefficiency, and seconds a reduction."""
LEAST_REST = 0.1
"""The parallel part is at least this share of a measured time, whatever the fixed parts say."""
THREADS = 1
"""One thread: the same bits on every machine, and the sets are small."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Hyper-parameters of one model, chosen by inner folds only."""

    rounds: int = 200
    depth: int = 3
    rate: float = 0.05
    least_weight: float = 3.0
    ridge: float = 5.0
    row_share: float = 0.8
    column_share: float = 0.5
    dead_zone: float = 0.0

    def as_dict(self) -> dict[str, float]:
        """Return the settings as the manifest has them."""
        return {key: float(value) for key, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Prior:
    """``t = fixed + reduction_s * reductions + parallel * exp(bias) * efficiency**carry``."""

    bias: float
    carry: float
    reduction_s: float = 0.0

    def fixed_s(self, data: Columns) -> Floats:
        """Return seconds that do not depend on how well the program runs."""
        return data.fixed_s + self.reduction_s * data.reductions

    def log_time(self, data: Columns, residual: Floats | float = 0.0) -> Floats:
        """Return log times of every row, the parallel part stretched by ``exp(residual)``."""
        stretch = np.exp(self.bias + self.carry * data.log_efficiency + residual)
        return np.asarray(np.log(self.fixed_s(data) + data.parallel_s * stretch))

    def residual(self, data: Columns) -> tuple[Floats, Floats]:
        """Return what stretches the parallel part to the measured times, and how much each row
        tells.

        Where nearly all of the time is fixed, the rest says little: it counts by its share.
        """
        times = np.exp(data.log_time)
        rest = np.maximum(times - self.fixed_s(data), LEAST_REST * times)
        prior = self.bias + self.carry * data.log_efficiency
        return np.log(rest / data.parallel_s) - prior, rest / times


@dataclass(frozen=True, slots=True)
class Model:
    """A fitted prior and its residual ensemble."""

    prior: Prior
    residual: xgboost.XGBRegressor
    dead_zone: float

    def log_time(self, data: Columns) -> Floats:
        """Return predicted log times."""
        raw = np.asarray(self.residual.predict(data.features), dtype=np.float64)
        return self.prior.log_time(data, firm(raw, self.dead_zone))


def fit_prior(data: Columns) -> Prior:
    """Return the prior whose log residuals are densest at zero, each kernel weighing the same.

    The mode, not the mean: most programs run close to the roofline and some far above it, and
    what makes those slow is for the residual to learn, not for all others to pay.
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
    fixed = data.fixed_s + reduction_s * data.reductions
    parallel = data.parallel_s * np.exp(carry * data.log_efficiency)
    predicted = np.log(fixed + np.exp(biases)[:, None] * parallel)
    apart = (data.log_time - predicted) / MODE_WIDTH
    density = (weights * np.exp(-0.5 * apart**2)).sum(axis=1)
    peak = int(density.argmax())
    return Prior(float(biases[peak]), float(carry), float(reduction_s)), float(density[peak])


def fit(data: Columns, settings: Settings, seed: int) -> Model:
    """Return the prior and residual. Raises UsageError for labels or features that cannot be learnt
    from."""
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
    """Return one single-output gradient-boosted ensemble (several outputs convert wrongly to
    ONNX)."""
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
    """Raise UsageError naming what is wrong with the data, before any library does."""
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
    """Return the weights that sum to one, the same for each kernel however many rows it has."""
    counts = {kernel: kernels.count(kernel) for kernel in set(kernels)}
    return np.array([1.0 / (counts[k] * len(counts)) for k in kernels])


BIAS_DEVIATION = 0.15
"""Deviation of platforms of a kind around the kind's bias, in log time. With the two labelled
platforms each as new, any of 0.1 to 0.2 does no harm from the first label on (`python -m lab
few-shot`)."""
CARRY_DEVIATION = 0.1
REDUCTION_DEVIATION_S = 2e-5
LABEL_SCALE = 0.3
"""Scale of a Cauchy distribution of log errors around the prior: odd kernels move it little."""
TYPICAL_DIFFICULTY = 0.8
"""Mean of ``core.intervals.difficulty`` over the training kernels."""
ENOUGH_KERNELS = CALIBRATED_KERNELS
"""Kernels from which on the interval is the labels' own."""
_BIASES = np.arange(-2.0, 2.0001, 0.02)


def shrunk_prior(data: Columns, start: Prior) -> Prior:
    """Return the most probable bias, carry and reduction given ``start`` and the rows (maybe none).

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
            place = int(loss.argmin())
            if loss[place] < least - 1e-9:
                best, least = Prior(float(biases[place]), carry, reduction_s), float(loss[place])
    return best


def honest_quantile(data: Columns, start: Prior, kind_quantile: float) -> float:
    """Return the interval's quantile of a platform with these labels, over a difficulty of the
    floor.

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
    """Return ``|log error| / DIFFICULTY_FLOOR`` of every row by a prior without its kernel."""
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
    base = Prior(0.0, carry, reduction_s)
    stretch = np.exp(biases[:, None] + carry * data.log_efficiency)
    log_time = np.log(base.fixed_s(data) + data.parallel_s * stretch)
    apart = (data.log_time - log_time) / LABEL_SCALE
    return np.asarray(np.log1p(apart**2) @ weights)
