"""Cross-validation folds over groups of rows, and figures of merit of held-out predictions.

A group holds rows that resemble each other: of one kernel, application or model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats


def folds(groups: Sequence[str], count: int, seed: int) -> list[list[int]]:
    """Return the row indices of each of ``count`` folds; all rows of a group are in one fold.

    Raises UsageError where there are fewer groups than folds.
    """
    names = sorted(set(groups))
    if len(names) < count:
        raise UsageError(
            f"{len(names)} groups are fewer than the {count} folds asked for",
            hint="measure more kernels or applications, or ask for fewer folds",
        )
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of = {names[int(n)]: i % count for i, n in enumerate(order)}
    return [[r for r, g in enumerate(groups) if fold_of[g] == f] for f in range(count)]


def r2(measured: Floats, predicted: Floats) -> float:
    """Return the coefficient of determination; NaN where all measured values are equal."""
    total = float(((measured - measured.mean()) ** 2).sum())
    return math.nan if total == 0 else 1 - float(((measured - predicted) ** 2).sum()) / total


def kendall(
    measured: Floats, predicted: Floats, groups: Sequence[str] | Sequence[int] | None = None
) -> float:
    """Return Kendall's tau-b over pairs of rows of different ``groups`` (None: over all pairs).

    NaN where there is no such pair; 0 where all measured or all predicted values are equal.
    """
    first, second = np.triu_indices(len(measured), 1)
    if groups is not None:
        names = np.array(groups)
        apart = names[first] != names[second]
        first, second = first[apart], second[apart]
    if not len(first):
        return math.nan
    real = np.sign(measured[first] - measured[second])
    guess = np.sign(predicted[first] - predicted[second])
    ordered = math.sqrt(float(np.count_nonzero(real)) * float(np.count_nonzero(guess)))
    return float(real @ guess) / ordered if ordered else 0.0


def row_taus(measured: Floats, predicted: Floats) -> Floats:
    """Return [rows]: Kendall's tau-b of each row over its measured (not NaN) columns.

    NaN for rows with fewer than two measured columns.
    """
    return np.array([
        kendall(real[known], guess[known])
        for real, guess, known in zip(measured, predicted, np.isfinite(measured), strict=True)
    ])  # fmt: skip


def group_mean(values: Floats, groups: Sequence[str] | Sequence[int]) -> float:
    """Return the mean over groups of each group's mean value."""
    _, place = np.unique(np.array(groups), return_inverse=True)
    return float((np.bincount(place, values) / np.bincount(place)).mean())
