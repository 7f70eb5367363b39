"""What every family has to beat: the same platform always, a random forest, a weighted ridge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from berth.predictor.ceilings import Floats
from berth.predictor.relative.rows import Rows

TREES = 300
RIDGE = 10.0
"""Taken from the published baseline, not tuned."""


def log_features(rows: Rows) -> Floats:
    """Rows x (counters + 1): log(1 + counter) and the log of the reference's time."""
    return np.column_stack([np.log1p(rows.values), rows.log_reference])


@dataclass(frozen=True, slots=True)
class Speedups:
    """A fitted regressor from features to the log speedup of every platform."""

    predict: Callable[[Floats], Floats]

    def log_seconds(self, rows: Rows) -> Floats:
        """Rows x platforms; a time that is known is given back."""
        guess = rows.log_reference[:, None] - self.predict(log_features(rows))
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)


@dataclass(frozen=True, slots=True)
class Regression:
    """log counters -> log speedups by a scikit-learn regressor."""

    name: str
    what: str
    make: Callable[[int], Any]
    weighed: bool = False

    def fit(self, rows: Rows, seed: int) -> Speedups:
        """Fit on all rows; every time must be known."""
        model = make_pipeline(StandardScaler(), self.make(seed))
        step = model.steps[-1][0]
        weight = rows.weights() / rows.weights().sum() * len(set(rows.applications))
        extra = {f"{step}__sample_weight": weight} if self.weighed else {}
        model.fit(log_features(rows), rows.log_speedup, **extra)
        return Speedups(lambda features: np.asarray(model.predict(features)))


@dataclass(frozen=True, slots=True)
class Always:
    """The mean log speedup of every platform, whatever the workload."""

    name: str = "always the same"
    what: str = "mean log speedup of each platform"

    def fit(self, rows: Rows, seed: int) -> Speedups:
        """Mean over rows."""
        mean = np.nanmean(rows.log_speedup, axis=0)
        return Speedups(lambda features: np.tile(mean, (len(features), 1)))


BASELINES = (
    Always(),
    Regression(
        "random forest",
        f"{TREES} trees on log counters",
        lambda seed: RandomForestRegressor(TREES, random_state=seed),
    ),
    Regression(
        "extra trees",
        f"{TREES} trees on log counters",
        lambda seed: ExtraTreesRegressor(TREES, random_state=seed),
    ),
    Regression(
        "ridge",
        f"ridge {RIDGE:g} on log counters, applications weigh the same",
        lambda _seed: Ridge(RIDGE),
        weighed=True,
    ),
)
