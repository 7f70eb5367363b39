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

from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.relative.rows import Rows

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
        """Fit on all rows; where times are missing, a model for each platform by those it has.

        A missing counter is taken for the median; a platform without times is as fast as the
        reference.
        """
        features, wanted = log_features(rows), rows.log_speedup
        known = np.isfinite(wanted)
        if known.all():
            return Speedups(self._fitted(rows, features, wanted, seed))
        each = [
            self._fitted(rows.take(here), features[here], column[here, None], seed)
            if here.any()
            else None
            for column, here in zip(wanted.T, known.T, strict=True)
        ]

        def predict(asked: Floats) -> Floats:
            nothing = np.zeros(len(asked))
            return np.column_stack([nothing if one is None else one(asked) for one in each])

        return Speedups(predict)

    def _fitted(
        self, rows: Rows, features: Floats, wanted: Floats, seed: int
    ) -> Callable[[Floats], Floats]:
        model = make_pipeline(StandardScaler(), self.make(seed))
        weight = rows.weights() / rows.weights().sum() * len(set(rows.applications))
        extra = {f"{model.steps[-1][0]}__sample_weight": weight} if self.weighed else {}
        usual = _medians(features)

        def filled(asked: Floats) -> Floats:
            return np.where(np.isfinite(asked), asked, usual)

        model.fit(filled(features), wanted if wanted.shape[1] > 1 else wanted[:, 0], **extra)
        return lambda asked: np.asarray(model.predict(filled(asked)))


def _medians(features: Floats) -> Floats:
    """Of each column over what is known; 0 of nothing."""
    known = np.isfinite(features)
    return np.array(
        [
            float(np.median(column[here])) if here.any() else 0.0
            for column, here in zip(features.T, known.T, strict=True)
        ]
    )


@dataclass(frozen=True, slots=True)
class Always:
    """The mean log speedup of every platform, whatever the workload."""

    name: str = "always the same"
    what: str = "mean log speedup of each platform"

    def fit(self, rows: Rows, seed: int) -> Speedups:
        """Mean over rows."""
        known = np.isfinite(rows.log_speedup)
        total = np.where(known, rows.log_speedup, 0.0).sum(axis=0)
        mean = total / np.maximum(known.sum(axis=0), 1)
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
