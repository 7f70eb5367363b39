"""The downstream models: four ensembles of trees with their libraries' defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xgboost
from sklearn.ensemble import AdaBoostRegressor, BaggingRegressor, RandomForestRegressor

from berth.predictor.core.arrays import Floats
from lab.published.xamm.choices import Downstream
from lab.published.xamm.samples import Samples, joined


def make(kind: Downstream, seed: int) -> Any:
    """An untrained regressor (scikit-learn's interface) on one thread."""
    if kind is Downstream.ADABOOST:
        return AdaBoostRegressor(random_state=seed)
    if kind is Downstream.BAGGING:
        return BaggingRegressor(random_state=seed, n_jobs=1)
    if kind is Downstream.FOREST:
        return RandomForestRegressor(random_state=seed, n_jobs=1)
    # "hist" splits at training values themselves: a machine's vector that ONNX makes 1e-7 apart
    # would fall on the other side. "exact" splits half-way between two values.
    return xgboost.XGBRegressor(random_state=seed, n_jobs=1, tree_method="exact")


def train(
    kind: Downstream,
    samples: Samples,
    embedded: Floats,
    vectors: Mapping[str, Floats] | None,
    seed: int,
) -> Any:
    """Learn log speedups from equation 3; pairs without a label, or a vector, are left out.

    None where nothing is left.
    """
    known = np.isfinite(samples.log_speedup)
    sources, targets = np.array(samples.sources), samples.targets
    if vectors is not None:
        known = known & np.isin(targets, list(vectors))[None, :]
        known = known & np.isin(sources, list(vectors))[:, None]
        blank = np.zeros_like(next(iter(vectors.values())))
        vectors = {**dict.fromkeys({*targets, *sources}, blank), **vectors}
    inputs = joined(embedded, samples.sources, targets, vectors)[known.ravel()]
    if not len(inputs):
        return None
    model = make(kind, seed)
    model.fit(inputs, samples.log_speedup[known])
    return model
