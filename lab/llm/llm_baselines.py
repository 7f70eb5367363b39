"""What the predictor of language models is measured against, on the same parts of the same split.

* ``thesis``: XGBoost with the thesis's hyper-parameters on the 34 features of Table 6.3, the
  lengths, parallelism and one-hots of accelerator and framework;
* ``one-hots``: XGBoost on lengths, batch, count, parameters and one-hots of accelerator,
  framework and model (the data notes' baseline);
* ``physics + trees``: XGBoost on what calibrated physics misses;
* ``physics uncalibrated``: every framework at the value where learning starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xgboost

from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.physics import combine
from lab.ground.evaluate import Family
from lab.llm.cases import Cases
from lab.llm.effects import fit_effects, physics, start_of
from lab.llm.thesis_features import hardware_features, model_features

THESIS: dict[str, Any] = {"n_estimators": 2000, "max_depth": 8, "learning_rate": 0.1}
"""Section 6.5.3."""
PLAIN: dict[str, Any] = {"n_estimators": 500, "max_depth": 6, "learning_rate": 0.1}
RESIDUAL: dict[str, Any] = {"n_estimators": 600, "max_depth": 6, "learning_rate": 0.05,
                            "subsample": 0.8, "colsample_bytree": 0.5}  # fmt: skip
Features = Callable[[Cases], Floats]


def baselines(seed: int) -> tuple[Family[Cases], ...]:
    """Return all of them, each fold with the same seed."""
    return (
        Family("XGBoost, Table 6.3 (the thesis)", _trees(_thesis, THESIS, seed)),
        Family("XGBoost, one-hots", _trees(_one_hots, PLAIN, seed)),
        Family("physics, calibrated, + XGBoost", _physics_and_trees(seed)),
        Family("physics, uncalibrated", _uncalibrated),
    )


def _uncalibrated(_: Cases, asked: Cases, _seed: int) -> Floats:
    return combine(asked.log_terms, start_of(asked.head))[0]


def _physics_and_trees(seed: int) -> Callable[[Cases, Cases, int], Floats]:
    def predict(learnt: Cases, asked: Cases, _: int) -> Floats:
        effects = fit_effects(learnt)
        missed = learnt.log_seconds - physics(learnt, effects)
        model = _fitted(_terms(learnt), missed, RESIDUAL, seed)
        return physics(asked, effects) + np.asarray(model.predict(_terms(asked)), np.float64)

    return predict


def _trees(
    features: Features, arguments: dict[str, Any], seed: int
) -> Callable[[Cases, Cases, int], Floats]:
    def predict(learnt: Cases, asked: Cases, _: int) -> Floats:
        model = _fitted(features(learnt), learnt.log_seconds, arguments, seed)
        return np.asarray(model.predict(features(asked)), dtype=np.float64)

    return predict


def _fitted(features: Floats, wanted: Floats, arguments: dict[str, Any], seed: int) -> Any:
    model = xgboost.XGBRegressor(n_jobs=1, tree_method="hist", random_state=seed, **arguments)
    return model.fit(features, wanted)


def _thesis(table: Cases) -> Floats:
    raw = [
        [*model_features(c.model, c.load).values(), *hardware_features(c.device).values()]
        for c in table.cases
    ]
    return np.hstack([np.array(raw), _loads(table), _hot(table, 2)])


def _one_hots(table: Cases) -> Floats:
    size = np.array([[c.model.parameters] for c in table.cases])
    return np.hstack([size, _loads(table), _hot(table, 3)])


def _terms(table: Cases) -> Floats:
    return np.hstack([table.log_terms, table.numbers, _hot(table, 3)])


def _loads(table: Cases) -> Floats:
    loads = [c.load for c in table.cases]
    return np.array([
        [x.input_tokens, x.output_tokens, x.batch, x.tensor_parallel, x.data_parallel,
         x.expert_parallel, x.weight_bits]
        for x in loads
    ], dtype=np.float64)  # fmt: skip


def _hot(table: Cases, columns: int) -> Floats:
    """One-hots of accelerator, framework and, of three columns, model."""
    codes = table.codes
    sizes = (len(codes.accelerators), len(codes.frameworks), len(codes.models))
    return np.hstack([np.eye(size)[table.ties[:, i]] for i, size in enumerate(sizes[:columns])])
