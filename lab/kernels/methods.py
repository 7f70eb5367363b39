"""The shipped model and what it is measured against, as fitters of the same protocol.

* roofline alone: the calibrated prior (two numbers fitted);
* residual alone: the same ensemble on the same work features, target log speedup, no roofline;
* published roofline: bytes and flops of a repetition as the RAJA suite publishes them;
* extra trees on the same published numbers (the baseline of the data set's own description).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from berth.predictor.core.arrays import Floats
from berth.predictor.families.program.features import FEATURES, WORK_FEATURES
from berth.predictor.learning.programs.columns import LabelRows
from berth.predictor.learning.programs.prior import kernel_weights
from lab.kernels.residual_model import Settings, fit_ensemble, fit_prior
from lab.kernels.select import CANDIDATES, Fit, each, fit_model

_WORK = [FEATURES.index(name) for name in WORK_FEATURES]


@each
def _roofline_alone(
    data: LabelRows, _settings: Settings, _seed: int
) -> Callable[[LabelRows], Floats]:
    return fit_prior(data).log_time


@each
def _residual_alone(
    data: LabelRows, settings: Settings, seed: int
) -> Callable[[LabelRows], Floats]:
    speedup, weights = data.log_reference - data.log_time, kernel_weights(data.kernels)
    model = fit_ensemble(_bare(data), speedup, weights, settings, seed)
    return lambda rows: np.asarray(rows.log_reference - model.predict(_bare(rows)), np.float64)


@each
def _extra_trees(data: LabelRows, _settings: Settings, seed: int) -> Callable[[LabelRows], Floats]:
    model = ExtraTreesRegressor(100, random_state=seed, n_jobs=1)
    model.fit(data.features, data.log_reference - data.log_time)
    return lambda rows: np.asarray(rows.log_reference - model.predict(rows.features))


@each
def _as_published(
    _data: LabelRows, _settings: Settings, _seed: int
) -> Callable[[LabelRows], Floats]:
    return lambda rows: np.asarray(np.log(rows.fixed_s + rows.parallel_s))


def _bare(data: LabelRows) -> Floats:
    return np.column_stack([data.features[:, _WORK], data.log_reference])


@dataclass(frozen=True, slots=True)
class Method:
    """A prediction method: its inputs, how it is fitted, and its candidate hyper-parameters."""

    name: str
    what: str
    fitter: Fit
    candidates: tuple[Settings, ...] = CANDIDATES[:1]
    """Default: one, nothing to select."""
    published: bool = False
    """True: the inputs are published bytes and flops instead of our counters."""


METHODS = (
    Method("both", "roofline prior x learned residual (shipped)", fit_model, CANDIDATES),
    Method("roofline alone", "calibrated prior", _roofline_alone),
    Method(
        "residual alone",
        "XGBoost on counters",
        _residual_alone,
        tuple(settings for settings in CANDIDATES if settings.dead_zone == 0),
    ),
    Method("published roofline", "published bytes and flops", _as_published, published=True),
    Method("extra trees", "published bytes and flops", _extra_trees, published=True),
)
SHIPPED = METHODS[0].name
