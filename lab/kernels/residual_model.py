"""The model of a labelled platform: a calibrated roofline prior times a learnt residual, both in
log time; and its predictions of kernels that it did not see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost

from berth.pilot.platform import Platform
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import difficulty
from berth.predictor.families.program.bundle import Formula, firm
from berth.predictor.learning.programs.columns import LabelRows
from berth.predictor.learning.programs.prior import (
    REDUCTIONS_S,
    kernel_weights,
    log_times,
)

CARRIES = tuple(i / 10 for i in range(11))
"""Values tried for ``Formula.carry``: the share of the reference's inefficiency assumed on the
target."""
MODE_WIDTH = 0.15
"""Standard deviation, in log time, of the kernel that the density of residuals is smoothed by."""
LEAST_REST = 0.1
"""Least share of a measured time that is taken as the parallel part."""
THREADS = 1
"""Threads of xgboost: one gives the same bits on every machine, and the data sets are small."""
ROUNDS = 500
"""Trees of a residual model."""
GPU_DEAD_ZONE = 0.3
"""Size below which a learnt log correction counts as 0 on a GPU, where most loops run as the
roofline says: 0 makes the median error 13 in place of 10 %. On a CPU it is 0 (0.3: 15 in place of
8 %). These and ``PARAMETERS`` were chosen on the kernels that are reported, by folds inside each
training set, which agreed."""
PARAMETERS: Mapping[str, Any] = {
    "max_depth": 4,
    "learning_rate": 0.05,
    "min_child_weight": 1.0,
    "reg_lambda": 1.0,
    "subsample": 0.8,
    "colsample_bytree": 0.3,
}
"""Settings of the gradient-boosted trees."""


def dead_zone_of(target: Platform) -> float:
    """Return the size below which learnt log corrections count as 0 on a platform."""
    return GPU_DEAD_ZONE if target.is_gpu else 0.0


@dataclass(frozen=True, slots=True)
class Model:
    """A calibrated roofline (prior) with the ensemble that corrects it."""

    prior: Formula
    residual: xgboost.XGBRegressor
    dead_zone: float
    """Predicted log residuals smaller than this count as 0."""

    def log_time(self, data: LabelRows) -> Floats:
        """Return the predicted natural log of seconds of every row."""
        raw = np.asarray(self.residual.predict(data.features), dtype=np.float64)
        return log_times(self.prior, data, firm(raw, self.dead_zone))


def residual_of(prior: Formula, data: LabelRows) -> tuple[Floats, Floats]:
    """Return, for each row, the log factor from the predicted to the measured parallel part,
    and its weight.

    The weight is the parallel part's share of the measured time: where nearly all of the time
    is fixed, the factor is poorly known.
    """
    times = np.exp(data.log_time)
    rest = np.maximum(times - prior.fixed_s(data.fixed_s, data.reductions), LEAST_REST * times)
    usual = prior.bias + prior.carry * data.log_efficiency
    return np.log(rest / data.parallel_s) - usual, rest / times


def fit_prior(data: LabelRows) -> Formula:
    """Return the calibrated roofline under which most kernels have log residuals near zero.

    Kernels are weighted equally. The mode is fitted instead of the mean: most programs run close to
    the roofline and some far above. The residual model learns those outliers, so the prior need not
    shift for them.
    """
    weights = kernel_weights(data.kernels)
    reductions = REDUCTIONS_S if data.reductions.any() else (0.0,)
    centre = float(np.median(data.log_time - np.log(data.fixed_s + data.parallel_s)))
    coarse = centre + np.arange(-1.5, 1.5, 0.05)
    best, most = Formula(bias=0.0, carry=0.0), -np.inf
    for carry in CARRIES:
        for reduction_s in reductions:
            densest, density = _densest(data, weights, coarse, carry, reduction_s)
            if density > most + 1e-9:
                best, most = densest, density
    fine = best.bias + np.arange(-0.05, 0.05, 0.01)
    return _densest(data, weights, fine, best.carry, best.reduction_s)[0]


def _densest(
    data: LabelRows, weights: Floats, biases: Floats, carry: float, reduction_s: float
) -> tuple[Formula, float]:
    """Return the prior with the bias (one of ``biases``) that puts most log residuals near zero,
    and that density."""
    fixed = data.fixed_s + reduction_s * data.reductions
    parallel = data.parallel_s * np.exp(carry * data.log_efficiency)
    predicted = np.log(fixed + np.exp(biases)[:, None] * parallel)
    apart = (data.log_time - predicted) / MODE_WIDTH
    density = (weights * np.exp(-0.5 * apart**2)).sum(axis=1)
    peak = int(density.argmax())
    found = Formula(bias=float(biases[peak]), carry=carry, reduction_s=reduction_s)
    return found, float(density[peak])


def fit(data: LabelRows, seed: int, *, dead_zone: float = 0.0, rounds: int = ROUNDS) -> Model:
    """Return the calibrated roofline and its residual model of ``rounds`` trees."""
    prior = fit_prior(data)
    labels, shares = residual_of(prior, data)
    weights = shares * kernel_weights(data.kernels)
    arguments: dict[str, Any] = {
        **PARAMETERS,
        "n_estimators": rounds,
        "objective": "reg:squarederror",
        "tree_method": "exact",
        "base_score": 0.0,
        "random_state": seed,
        "n_jobs": THREADS,
    }
    ensemble = xgboost.XGBRegressor(**arguments)
    ensemble.fit(data.features, labels, sample_weight=weights * (len(weights) / weights.sum()))
    return Model(prior, ensemble, dead_zone)


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
    fitted: Callable[[LabelRows], Model],
    advance: Callable[[], None] = lambda: None,
) -> HeldOut:
    """Return predictions of each of the ``parts`` (row numbers) by a model ``fitted`` to the other
    rows.

    ``advance`` is called after each part.
    """
    predicted, roofline = np.zeros((2, len(data)))
    for part in parts:
        rows = data.take(part)
        model = fitted(data.take(np.setdiff1d(np.arange(len(data)), part)))
        predicted[part], roofline[part] = model.log_time(rows), log_times(model.prior, rows)
        advance()
    hard = np.array([difficulty(change) for change in predicted - roofline])
    return HeldOut(predicted, roofline, hard)
