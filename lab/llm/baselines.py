"""What the predictor of language models is measured against, on the same parts of the same split.

* ``thesis``: XGBoost with the thesis's hyper-parameters on the 34 features of Table 6.3, the
  lengths, parallelism and one-hots of accelerator and framework;
* ``one-hots``: XGBoost on lengths, batch, count, parameters and one-hots of accelerator,
  framework and model (the data notes' baseline);
* ``physics + trees``: XGBoost on what calibrated physics misses;
* ``physics uncalibrated``: every framework at the value where learning starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xgboost

from berth.predictor.families.language_model.physics import TERMS, Floats, combine
from berth.predictor.families.language_model.table import hardware_features, model_features
from lab.llm.effects import START, UNLIKELY, fit_effects, physics
from lab.llm.table import Table

THESIS: dict[str, Any] = {"n_estimators": 2000, "max_depth": 8, "learning_rate": 0.1}
"""Section 6.5.3."""
PLAIN: dict[str, Any] = {"n_estimators": 500, "max_depth": 6, "learning_rate": 0.1}
RESIDUAL: dict[str, Any] = {"n_estimators": 600, "max_depth": 6, "learning_rate": 0.05,
                            "subsample": 0.8, "colsample_bytree": 0.5}  # fmt: skip


def uncalibrated(table: Table, part: Sequence[int], _: int) -> Floats:
    """Log seconds of a part with nothing learnt."""
    start = np.array([START[table.head].get(name, UNLIKELY) for name in TERMS[table.head]])
    return combine(table.log_terms[np.array(part)], start)[0]


def thesis(table: Table, part: Sequence[int], seed: int) -> Floats:
    """Log seconds of a part by the thesis's trees."""
    raw = [
        [*model_features(c.model, c.load).values(), *hardware_features(c.device).values()]
        for c in table.cases
    ]
    features = np.hstack([np.array(raw), _loads(table), _hot(table, 2)])
    return _trees(table, part, features, {**THESIS, "random_state": seed})


def one_hots(table: Table, part: Sequence[int], seed: int) -> Floats:
    """Log seconds of a part by the data notes' baseline."""
    size = np.array([[c.model.parameters] for c in table.cases])
    features = np.hstack([size, _loads(table), _hot(table, 3)])
    return _trees(table, part, features, {**PLAIN, "random_state": seed})


def physics_and_trees(table: Table, part: Sequence[int], seed: int) -> Floats:
    """Log seconds of a part: the same physics as ours, trees for the rest."""
    away = np.array(part, dtype=np.int64)
    rest = table.take(np.setdiff1d(np.arange(len(table)), away))
    said = physics(table, fit_effects(rest))
    features = np.hstack([table.log_terms, table.numbers, _hot(table, 3)])
    missed = table.log_seconds - said
    return said[away] + _trees(table, part, features, {**RESIDUAL, "random_state": seed}, missed)


RIVALS: dict[str, Callable[[Table, Sequence[int], int], Floats]] = {
    "XGBoost, Table 6.3 (the thesis)": thesis,
    "XGBoost, one-hots": one_hots,
    "physics, calibrated, + XGBoost": physics_and_trees,
    "physics, uncalibrated": uncalibrated,
}


def _loads(table: Table) -> Floats:
    loads = [c.load for c in table.cases]
    return np.array([
        [x.input_tokens, x.output_tokens, x.batch, x.tensor_parallel, x.data_parallel,
         x.expert_parallel, x.weight_bits]
        for x in loads
    ], dtype=np.float64)  # fmt: skip


def _hot(table: Table, columns: int) -> Floats:
    found = []
    for column in range(columns):
        codes = table.ties[:, column]
        found.append((codes[:, None] == np.unique(codes)[None, :]).astype(np.float64))
    return np.hstack(found)


def _trees(
    table: Table,
    part: Sequence[int],
    features: Floats,
    arguments: dict[str, Any],
    wanted: Floats | None = None,
) -> Floats:
    away = np.array(part, dtype=np.int64)
    rest = np.setdiff1d(np.arange(len(table)), away)
    target = table.log_seconds if wanted is None else wanted
    model = xgboost.XGBRegressor(n_jobs=1, tree_method="hist", **arguments)
    model.fit(features[rest], target[rest])
    return np.asarray(model.predict(features[away]), dtype=np.float64)
