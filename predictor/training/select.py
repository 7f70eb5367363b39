"""Choosing hyper-parameters by folds over kernels, and the residuals that come out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.ceilings import Floats
from berth.predictor.training.examples import Columns
from berth.predictor.training.model import Model, Settings, fit, kernel_weights

CANDIDATES: tuple[Settings, ...] = tuple(
    Settings(
        rounds=rounds, depth=depth, rate=0.05, least_weight=weight, ridge=1.0, column_share=0.3,
        dead_zone=dead_zone,
    )
    for rounds, depth, weight in ((150, 2, 3.0), (500, 4, 1.0))
    for dead_zone in (0.0, 0.15, 0.3)
)  # fmt: skip
"""From cautious to keen. Nested: the choice sees the training kernels of its own fold only."""

Predict = Callable[[Columns], Floats]
"""From rows to predicted log times."""
Fit = Callable[[Columns, Sequence[Settings], int], list[Predict]]
"""Fits every candidate on some rows with a seed; candidates may share work."""


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


def fit_model(data: Columns, candidates: Sequence[Settings], seed: int) -> list[Predict]:
    """The shipped family: candidates that differ in the dead zone only are one ensemble."""
    fitted: dict[Settings, Model] = {}
    found: list[Predict] = []
    for settings in candidates:
        bare = replace(settings, dead_zone=0.0)
        if bare not in fitted:
            fitted[bare] = fit(data, bare, seed)
        found.append(replace(fitted[bare], dead_zone=settings.dead_zone).log_time)
    return found


def each(one: Callable[[Columns, Settings, int], Predict]) -> Fit:
    """A family whose candidates share nothing."""

    def fit_each(data: Columns, candidates: Sequence[Settings], seed: int) -> list[Predict]:
        return [one(data, settings, seed) for settings in candidates]

    return fit_each


def select(
    data: Columns,
    *,
    count: int,
    seed: int,
    candidates: Sequence[Settings] = CANDIDATES,
    fitter: Fit = fit_model,
) -> Selection:
    """The candidate with the least mean absolute log error over held-out kernels."""
    if not candidates:
        raise UsageError("no candidate settings were given")
    parts = folds(data.kernels, count, seed)
    weights = kernel_weights(data.kernels)
    residuals = np.zeros((len(candidates), len(data)))
    for held in parts:
        rest = np.setdiff1d(np.arange(len(data)), held)
        for row, predict in enumerate(fitter(data.take(rest), candidates, seed)):
            residuals[row, held] = data.log_time[held] - predict(data.take(held))
    losses = (weights * np.abs(residuals)).sum(axis=1)
    best = int(losses.argmin())
    return Selection(candidates[best], residuals[best], float(losses[best]))
