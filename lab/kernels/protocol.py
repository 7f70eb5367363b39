"""Nested leave-one-kernel-out: nothing is chosen, fitted or calibrated on the kernel reported.

Outer: each kernel (all its sizes) is held out in turn. Inner: folds over the other kernels choose
the settings, and the residuals of those folds give the 90 % interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed

from berth.predictor.core.intervals import group_quantile
from berth.predictor.families.program.ceilings import Floats
from berth.predictor.learning.metrics import Figures, figures
from berth.predictor.learning.programs.columns import Columns
from berth.predictor.learning.programs.model import Settings
from lab.kernels.select import CANDIDATES, Fit, select

INNER_FOLDS = 6


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Predictions of one method for rows that it had not seen."""

    log_predicted: Floats
    log_width: Floats
    settings: tuple[Settings, ...]
    """What each outer fold chose."""

    def figures(self, data: Columns) -> Figures:
        """Figures over all rows."""
        return figures(
            data.log_time, self.log_predicted, data.log_reference, data.kernels, self.log_width
        )


def leave_one_kernel_out(
    data: Columns,
    fitter: Fit,
    *,
    seed: int,
    candidates: Sequence[Settings] = CANDIDATES,
    jobs: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> HeldOut:
    """Held-out predictions of every row. ``advance`` is called once a kernel (progress)."""
    names = sorted(set(data.kernels))
    predicted, width = np.zeros(len(data)), np.zeros(len(data))
    chosen: list[Settings] = []
    runs = Parallel(n_jobs=jobs, return_as="generator")(
        delayed(_one)(data, name, fitter, seed, tuple(candidates)) for name in names
    )
    for held, log_predicted, log_width, settings in runs:
        predicted[held] = log_predicted
        width[held] = log_width
        chosen.append(settings)
        advance()
    return HeldOut(predicted, width, tuple(chosen))


def _one(
    data: Columns, name: str, fitter: Fit, seed: int, candidates: tuple[Settings, ...]
) -> tuple[list[int], Floats, Floats, Settings]:
    held = [i for i, k in enumerate(data.kernels) if k == name]
    rest = data.take([i for i, k in enumerate(data.kernels) if k != name])
    inner = select(rest, count=INNER_FOLDS, seed=seed, candidates=candidates, fitter=fitter)
    (predict,) = fitter(rest, [inner.settings], seed)
    guess = predict(data.take(held))
    quantile = group_quantile(list(inner.scores), rest.kernels)
    return held, guess.log_time, quantile * guess.difficulty, inner.settings
