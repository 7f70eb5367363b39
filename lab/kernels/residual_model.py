"""The model of a labelled platform: a calibrated roofline prior times a learnt residual, both in
log time; and its predictions of kernels that it did not see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xgboost

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import difficulty
from berth.predictor.families.program.bundle import firm
from berth.predictor.learning.programs.columns import LabelRows
from berth.predictor.learning.programs.prior import (
    CARRIES,
    REDUCTIONS_S,
    Prior,
    kernel_weights,
)

MODE_WIDTH = 0.15
"""Standard deviation, in log time, of the kernel that the density of residuals is smoothed by."""
LEAST_REST = 0.1
"""Least share of a measured time that is taken as the parallel part."""
THREADS = 1
"""Threads of xgboost: one gives the same bits on every machine, and the data sets are small."""


ROUNDS = 500
"""Trees of a residual model."""
GPU_DEAD_ZONE = 0.3
"""``Settings.dead_zone`` on a GPU, where most loops run as the roofline says: 0 makes the median
error 13 in place of 10 %. On a CPU it is 0 (0.3: 15 in place of 8 %). These and the settings below
were chosen on the kernels that are reported, by folds inside each training set, which agreed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Hyper-parameters of the gradient-boosted residual model."""

    rounds: int = ROUNDS
    depth: int = 4
    rate: float = 0.05
    least_weight: float = 1.0
    ridge: float = 1.0
    row_share: float = 0.8
    column_share: float = 0.3
    dead_zone: float = 0.0
    """Predicted log residuals smaller than this count as 0."""

    @classmethod
    def of(cls, target: Platform, rounds: int = ROUNDS) -> Settings:
        """Return the settings of a target platform."""
        return cls(rounds=rounds, dead_zone=GPU_DEAD_ZONE if target.is_gpu else 0.0)

    def as_dict(self) -> dict[str, float]:
        """Return the settings by name, as the manifest stores them."""
        return {key: float(value) for key, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Model:
    """A calibrated roofline (prior) with the ensemble that corrects it."""

    prior: Prior
    residual: xgboost.XGBRegressor
    dead_zone: float
    """Predicted log residuals smaller than this count as 0."""

    def log_time(self, data: LabelRows) -> Floats:
        """Return the predicted natural log of seconds of every row."""
        raw = np.asarray(self.residual.predict(data.features), dtype=np.float64)
        return self.prior.log_time(data, firm(raw, self.dead_zone))


def residual_of(prior: Prior, data: LabelRows) -> tuple[Floats, Floats]:
    """Return, for each row, the log factor from the predicted to the measured parallel part,
    and its weight.

    The weight is the parallel part's share of the measured time: where nearly all of the time
    is fixed, the factor is poorly known.
    """
    times = np.exp(data.log_time)
    rest = np.maximum(times - prior.fixed_s(data), LEAST_REST * times)
    usual = prior.bias + prior.carry * data.log_efficiency
    return np.log(rest / data.parallel_s) - usual, rest / times


def fit_prior(data: LabelRows) -> Prior:
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
    data: LabelRows, weights: Floats, biases: Floats, carry: float, reduction_s: float
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


def fit(data: LabelRows, settings: Settings, seed: int) -> Model:
    """Return the calibrated roofline and its residual model, fitted to ``data``.

    Raises UsageError for labels or features that cannot be learnt from.
    """
    prior = fit_prior(data)
    labels, shares = residual_of(prior, data)
    weights = shares * kernel_weights(data.kernels)
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
    ensemble = xgboost.XGBRegressor(**arguments)
    ensemble.fit(data.features, labels, sample_weight=weights * (len(weights) / weights.sum()))
    return Model(prior, ensemble, settings.dead_zone)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Predictions of rows by models that did not see their kernels; one value a row."""

    log_time: Floats
    log_roofline: Floats
    """By the calibrated roofline alone."""
    difficulty: Floats
    """The scale of the interval."""

    def scores(self, data: LabelRows) -> Floats:
        """Return ``|log(measured / predicted)| / difficulty``."""
        return np.asarray(np.abs(data.log_time - self.log_time) / self.difficulty)


def held_out(
    data: LabelRows,
    parts: Sequence[Sequence[int]],
    settings: Settings,
    seed: int,
    advance: Callable[[], None] = lambda: None,
) -> HeldOut:
    """Return predictions of each of the ``parts`` (row numbers) by a model of the other rows.

    ``advance`` is called after each part.
    """
    predicted, roofline = np.zeros((2, len(data)))
    for part in parts:
        rows = data.take(part)
        model = fit(data.take(np.setdiff1d(np.arange(len(data)), part)), settings, seed)
        predicted[part], roofline[part] = model.log_time(rows), model.prior.log_time(rows)
        advance()
    hard = np.array([difficulty(change) for change in predicted - roofline])
    return HeldOut(predicted, roofline, hard)


def check(data: LabelRows) -> None:
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
