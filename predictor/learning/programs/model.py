"""The model: a calibrated roofline prior times a learned residual, both in log time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xgboost

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.families.program.bundle import firm
from berth.predictor.learning.programs.columns import Columns

MODE_WIDTH = 0.15
"""Standard deviation, in log time, of the kernel that the density of residuals is smoothed by."""
CARRIES = tuple(i / 10 for i in range(11))
REDUCTIONS_S = tuple(i * 5e-6 for i in range(11))
"""What is tried: shares of the reference's inefficiency, and seconds a reduction."""
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
        """For the manifest."""
        return {key: float(value) for key, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Prior:
    """``t = fixed + reduction_s * reductions + parallel * exp(bias) * efficiency**carry``."""

    bias: float
    carry: float
    reduction_s: float = 0.0

    def fixed_s(self, data: Columns) -> Floats:
        """Seconds that do not depend on how well the program runs."""
        return data.fixed_s + self.reduction_s * data.reductions

    def log_time(self, data: Columns, residual: Floats | float = 0.0) -> Floats:
        """Log times of every row, the parallel part stretched by ``exp(residual)``."""
        stretch = np.exp(self.bias + self.carry * data.log_efficiency + residual)
        return np.asarray(np.log(self.fixed_s(data) + data.parallel_s * stretch))

    def residual(self, data: Columns) -> tuple[Floats, Floats]:
        """What stretches the parallel part to the measured times, and how much each row tells.

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
        """Predicted log times."""
        raw = np.asarray(self.residual.predict(data.features), dtype=np.float64)
        return self.prior.log_time(data, firm(raw, self.dead_zone))


def fit_prior(data: Columns) -> Prior:
    """The prior whose log residuals are densest at zero, each kernel weighing the same.

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
            found, density = _densest(data, weights, coarse, carry, reduction_s)
            if density > most + 1e-9:
                best, most = found, density
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
    """Prior and residual. Raises UsageError for labels or features that cannot be learnt from."""
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
    """One single-output gradient-boosted ensemble (several outputs convert wrongly to ONNX)."""
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
    """Raises UsageError naming what is wrong with the data, before any library does."""
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
    """Weights that sum to one, the same for each kernel however many rows it has."""
    counts = {kernel: kernels.count(kernel) for kernel in set(kernels)}
    return np.array([1.0 / (counts[k] * len(counts)) for k in kernels])
