"""Choosing hyper-parameters by folds over kernels, and the residuals that come out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.ceilings import Floats
from berth.predictor.training.examples import Columns
from berth.predictor.training.model import Settings, fit, kernel_weights

CANDIDATES: tuple[Settings, ...] = (
    Settings(rounds=100, depth=2, rate=0.1, least_weight=3.0, ridge=3.0, column_share=0.5),
    Settings(rounds=200, depth=3, rate=0.05, least_weight=3.0, ridge=2.0, column_share=0.5),
    Settings(rounds=300, depth=3, rate=0.1, least_weight=2.0, ridge=1.0, column_share=0.3),
    Settings(rounds=500, depth=4, rate=0.05, least_weight=1.0, ridge=1.0, column_share=0.3),
)
"""From cautious to keen. Nested: the choice sees the training kernels of its own fold only."""

Fit = Callable[[Columns, Settings, int], Callable[[Columns], Floats]]
"""Fits on some rows and gives a function from rows to predicted log times."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen settings and their held-out residuals, one a row of the training data."""

    settings: Settings
    residuals: Floats
    """``log(measured / predicted)`` by models that had not seen the row's kernel."""
    loss: float


def folds(kernels: Sequence[str], count: int, seed: int) -> list[list[int]]:
    """Row indices of each of ``count`` folds; all rows of a kernel are in one fold.

    Raises UsageError where there are fewer kernels than folds.
    """
    names = sorted(set(kernels))
    if len(names) < count:
        raise UsageError(
            f"{len(names)} kernels are fewer than the {count} folds asked for",
            hint="profile more kernels, or ask for fewer folds",
        )
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of = {names[int(k)]: i % count for i, k in enumerate(order)}
    return [[r for r, k in enumerate(kernels) if fold_of[k] == f] for f in range(count)]


def fit_model(data: Columns, settings: Settings, seed: int) -> Callable[[Columns], Floats]:
    """The shipped family as a ``Fit``."""
    return fit(data, settings, seed).log_time


def select(
    data: Columns,
    *,
    count: int,
    seed: int,
    candidates: Sequence[Settings] = CANDIDATES,
    fitter: Fit = fit_model,
) -> Selection:
    """The candidate with the least mean absolute log error over held-out kernels."""
    parts = folds(data.kernels, count, seed)
    weights = kernel_weights(data.kernels)
    best: Selection | None = None
    for settings in candidates:
        residuals = np.zeros(len(data))
        for held in parts:
            rest = np.setdiff1d(np.arange(len(data)), held)
            predict = fitter(data.take(rest), settings, seed)
            residuals[held] = data.log_time[held] - predict(data.take(held))
        loss = float((weights * np.abs(residuals)).sum())
        if best is None or loss < best.loss:
            best = Selection(settings, residuals, loss)
    if best is None:
        raise UsageError("no candidate settings were given")
    return best
