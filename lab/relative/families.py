"""The families of relative performance that are evaluated: baselines and the cost model.

The published networks are in ``lab.published`` and are evaluated on the same splits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from lab.datasets.aiwc import KINDS
from lab.relative.cost_model_family import CostModelFamily
from lab.relative.family import TimesLearner
from lab.relative.figures import MeanSpeedup

TREES = 300


def log_features(rows: Rows) -> Floats:
    """Return rows x (counters + 1): log(1 + counter) and the log of the reference's time."""
    return np.column_stack([np.log1p(rows.values), rows.log_reference])


@dataclass(frozen=True, slots=True)
class Speedups:
    """A fitted regressor from features to the log speedup of every platform."""

    predict: Callable[[Floats], Floats]

    def log_seconds(self, rows: Rows) -> Floats:
        """Return log seconds, rows x platforms: the known time, or else the prediction."""
        guess = rows.log_reference[:, None] - self.predict(log_features(rows))
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)


@dataclass(frozen=True, slots=True)
class Regression:
    """A scikit-learn regressor that predicts log speedups from log counters."""

    name: str
    what: str
    make: Callable[[int], Any]

    def fit(self, rows: Rows, seed: int) -> Speedups:
        """Fit on all rows. Where times are missing, fit a model per platform on its known times.

        A missing counter is replaced by the median. A platform without any time is predicted to be
        as fast as the reference.
        """
        wanted = rows.log_speedup
        known = np.isfinite(wanted)
        if known.all():
            return Speedups(self._fitted(rows, wanted, seed))
        each = [
            self._fitted(rows.take(here), column[here], seed) if here.any() else _no_speedup
            for column, here in zip(wanted.T, known.T, strict=True)
        ]
        return Speedups(lambda asked: np.column_stack([one(asked) for one in each]))

    def _fitted(self, rows: Rows, wanted: Floats, seed: int) -> Callable[[Floats], Floats]:
        usual = SimpleImputer(strategy="median", keep_empty_features=True)
        model = make_pipeline(usual, StandardScaler(), self.make(seed))
        model.fit(log_features(rows), wanted)
        return lambda asked: np.asarray(model.predict(asked))


def _no_speedup(asked: Floats) -> Floats:
    return np.zeros(len(asked))


FOREST = Regression(
    "random forest",
    f"{TREES} trees on log counters",
    lambda seed: RandomForestRegressor(TREES, random_state=seed),
)
BASELINES: tuple[TimesLearner, ...] = (MeanSpeedup(), FOREST)
COST_MODEL = CostModelFamily(kinds=KINDS)
"""The shipped cost model, for AIWC's devices."""
