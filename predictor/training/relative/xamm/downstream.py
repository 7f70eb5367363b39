"""The downstream models: four ensembles of trees with their libraries' defaults."""

from __future__ import annotations

from typing import Any

import xgboost
from sklearn.ensemble import AdaBoostRegressor, BaggingRegressor, RandomForestRegressor

from berth.predictor.training.relative.xamm.choices import Downstream


def make(kind: Downstream, seed: int) -> Any:
    """An untrained regressor (scikit-learn's interface) on one thread."""
    if kind is Downstream.ADABOOST:
        return AdaBoostRegressor(random_state=seed)
    if kind is Downstream.BAGGING:
        return BaggingRegressor(random_state=seed, n_jobs=1)
    if kind is Downstream.FOREST:
        return RandomForestRegressor(random_state=seed, n_jobs=1)
    return xgboost.XGBRegressor(random_state=seed, n_jobs=1, tree_method="hist")
