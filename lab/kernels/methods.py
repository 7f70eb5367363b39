"""The shipped model of programs, and its calibrated roofline alone, as fitters of one protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from berth.predictor.core.arrays import Floats
from berth.predictor.learning.programs.columns import LabelRows
from lab.kernels.residual_model import Settings, fit_prior
from lab.kernels.select import CANDIDATES, Fit, each, fit_model


@each
def _roofline_alone(
    data: LabelRows, _settings: Settings, _seed: int
) -> Callable[[LabelRows], Floats]:
    return fit_prior(data).log_time


@dataclass(frozen=True, slots=True)
class Method:
    """A prediction method: how it is fitted, and its candidate hyper-parameters."""

    name: str
    fitter: Fit
    candidates: tuple[Settings, ...] = CANDIDATES[:1]
    """Default: one, nothing to select."""


METHODS = (
    Method("both", fit_model, CANDIDATES),
    Method("roofline alone", _roofline_alone),
)
SHIPPED = METHODS[0].name
