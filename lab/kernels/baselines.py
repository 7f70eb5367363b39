"""What the shipped model is measured against, as fitters of the same protocol.

* roofline alone: the calibrated prior (two numbers fitted);
* residual alone: the same ensemble on the same work features, target log speedup, no roofline;
* published roofline: bytes and flops of a repetition as the RAJA suite publishes them;
* extra trees on the same published numbers (the baseline of the data set's own description).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.program.features import FEATURES, WORK_FEATURES
from berth.predictor.learning.programs.columns import Columns
from berth.predictor.learning.programs.model import (
    Settings,
    fit_ensemble,
    fit_prior,
    kernel_weights,
)
from lab.kernels.select import each

Predict = Callable[[Columns], Floats]

_WORK = [FEATURES.index(name) for name in WORK_FEATURES]


@each
def roofline_alone(data: Columns, _settings: Settings, _seed: int) -> Predict:
    """The calibrated prior without a residual."""
    return fit_prior(data).log_time


@each
def residual_alone(data: Columns, settings: Settings, seed: int) -> Predict:
    """The ensemble on counters and reference time, with no machine model at all."""
    model = fit_ensemble(
        _bare(data),
        data.log_reference - data.log_time,
        kernel_weights(data.kernels),
        settings,
        seed,
    )

    def predict(rows: Columns) -> Floats:
        return np.asarray(rows.log_reference - model.predict(_bare(rows)), dtype=np.float64)

    return predict


@each
def extra_trees(data: Columns, _settings: Settings, seed: int) -> Predict:
    """Extra trees on whatever features the columns hold (published bytes and flops)."""
    model = ExtraTreesRegressor(100, random_state=seed, n_jobs=1)
    model.fit(data.features, data.log_reference - data.log_time)

    def predict(rows: Columns) -> Floats:
        return np.asarray(rows.log_reference - model.predict(rows.features))

    return predict


@each
def absolute(_data: Columns, _settings: Settings, _seed: int) -> Predict:
    """The roofline as it stands in the columns: nothing fitted at all."""
    return lambda rows: np.asarray(np.log(rows.fixed_s + rows.parallel_s))


def _bare(data: Columns) -> Floats:
    return np.column_stack([data.features[:, _WORK], data.log_reference])
