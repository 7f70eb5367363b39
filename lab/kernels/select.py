"""Choosing hyper-parameters by folds over kernels, and the residuals that come out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import difficulty
from berth.predictor.learning.programs.columns import LabelRows
from berth.predictor.learning.programs.prior import kernel_weights
from lab.ground.splits import folds
from lab.kernels.residual_model import Model, Settings, fit

CANDIDATES: tuple[Settings, ...] = tuple(
    Settings(
        rounds=rounds, depth=depth, rate=0.05, least_weight=weight, ridge=1.0, column_share=0.3,
        dead_zone=dead_zone,
    )
    for rounds, depth, weight in ((150, 2, 3.0), (500, 4, 1.0))
    for dead_zone in (0.0, 0.15, 0.3)
)  # fmt: skip
"""From cautious to keen. Nested: the choice sees the training kernels of its own fold only."""


@dataclass(frozen=True, slots=True)
class Guess:
    """Predicted log times, and how hard each row is (the scale of its interval)."""

    log_time: Floats
    difficulty: Floats


Predict = Callable[[LabelRows], Guess]
"""From rows to predictions."""
Fit = Callable[[LabelRows, Sequence[Settings], int], list[Predict]]
"""Fits every candidate on some rows with a seed; candidates may share work."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen settings and their held-out residuals, one a row of the training data."""

    settings: Settings
    scores: Floats
    """``|log(measured / predicted)| / difficulty`` by models that had not seen the kernel."""
    loss: float


def fit_model(data: LabelRows, candidates: Sequence[Settings], seed: int) -> list[Predict]:
    """Return the shipped family: candidates that differ in the dead zone only are one ensemble."""
    fitted: dict[Settings, Model] = {}
    found: list[Predict] = []
    for settings in candidates:
        bare = replace(settings, dead_zone=0.0)
        if bare not in fitted:
            fitted[bare] = fit(data, bare, seed)
        found.append(_guess(replace(fitted[bare], dead_zone=settings.dead_zone)))
    return found


def _guess(model: Model) -> Predict:
    def predict(data: LabelRows) -> Guess:
        corrected = model.log_time(data)
        hard = [difficulty(change) for change in corrected - model.prior.log_time(data)]
        return Guess(corrected, np.array(hard))

    return predict


def each(one: Callable[[LabelRows, Settings, int], Callable[[LabelRows], Floats]]) -> Fit:
    """Return a family whose candidates share nothing and whose rows are all equally hard."""

    def fit_each(data: LabelRows, candidates: Sequence[Settings], seed: int) -> list[Predict]:
        return [_even(one(data, settings, seed)) for settings in candidates]

    return fit_each


def _even(log_time: Callable[[LabelRows], Floats]) -> Predict:
    def predict(data: LabelRows) -> Guess:
        return Guess(log_time(data), np.ones(len(data)))

    return predict


def select(
    data: LabelRows,
    *,
    count: int,
    seed: int,
    candidates: Sequence[Settings] = CANDIDATES,
    fitter: Fit = fit_model,
) -> Selection:
    """Return the candidate with the least mean absolute log error over held-out kernels."""
    if not candidates:
        raise UsageError("no candidate settings were given")
    parts = folds(data.kernels, count, seed)
    weights = kernel_weights(data.kernels)
    off, hard = np.zeros((2, len(candidates), len(data)))
    for held in parts:
        rest = np.setdiff1d(np.arange(len(data)), held)
        for row, predict in enumerate(fitter(data.take(rest), candidates, seed)):
            guess = predict(data.take(held))
            off[row, held] = np.abs(data.log_time[held] - guess.log_time)
            hard[row, held] = guess.difficulty
    losses = (weights * off).sum(axis=1)
    best = int(losses.argmin())
    return Selection(candidates[best], off[best] / hard[best], float(losses[best]))
