"""The model: a calibrated roofline prior times a learned residual, both in log time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xgboost

from berth.pilot.errors import UsageError
from berth.predictor.ceilings import Floats
from berth.predictor.training.examples import Columns

MODE_WIDTH = 0.15
"""Standard deviation, in log time, of the kernel that the density of residuals is smoothed by."""
MODE_STEP = 0.01
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

    def as_dict(self) -> dict[str, float]:
        """For the manifest."""
        return {key: float(value) for key, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Prior:
    """``log t = log T + bias + carry * log efficiency``."""

    bias: float
    carry: float

    def log_time(self, data: Columns) -> Floats:
        """Prior log times of every row."""
        return data.log_roofline + self.bias + self.carry * data.log_efficiency


@dataclass(frozen=True, slots=True)
class Model:
    """A fitted prior and, where there is one, its residual ensemble."""

    prior: Prior
    residual: xgboost.XGBRegressor | None

    def log_time(self, data: Columns) -> Floats:
        """Predicted log times."""
        base = self.prior.log_time(data)
        if self.residual is None:
            return base
        return np.asarray(base + self.residual.predict(data.features), dtype=np.float64)


def fit_prior(data: Columns) -> Prior:
    """Bias and carry where the log residuals are densest, each kernel weighing the same.

    The mode, not the mean: most programs run close to the roofline and some far above it, and
    what makes those slow is for the residual to learn, not for all others to pay.
    """
    check(data)
    weights = kernel_weights(data.kernels)
    wanted = data.log_time - data.log_roofline
    best, most = Prior(0.0, 0.0), -np.inf
    for carry in np.linspace(0.0, 1.0, 11):
        rest = wanted - carry * data.log_efficiency
        biases = np.arange(rest.min(), rest.max() + MODE_STEP, MODE_STEP)
        apart = (biases[:, None] - rest[None, :]) / MODE_WIDTH
        density = (weights * np.exp(-0.5 * apart**2)).sum(axis=1)
        peak = int(density.argmax())
        if density[peak] > most + 1e-9:
            most = float(density[peak])
            best = Prior(float(biases[peak]), float(carry))
    return best


def fit(data: Columns, settings: Settings, seed: int) -> Model:
    """Prior and residual. Raises UsageError for labels or features that cannot be learnt from."""
    prior = fit_prior(data)
    residual = fit_ensemble(
        data.features, data.log_time - prior.log_time(data), data.kernels, settings, seed
    )
    return Model(prior, residual)


def fit_ensemble(
    features: Floats, labels: Floats, kernels: tuple[str, ...], settings: Settings, seed: int
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
    model.fit(features, labels, sample_weight=kernel_weights(kernels) * len(set(kernels)))
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
