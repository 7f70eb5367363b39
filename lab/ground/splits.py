"""Splits into training and test rows: random rows, each group in turn, k folds of the groups.

``few`` draws the few training rows of few-shot evaluations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from lab.ground.table import Places, Strings

Grouping: TypeAlias = Callable[[Any], Strings] | str
"""How to get the group name of each row: the name of a column, or a function of the table."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Row numbers of the training rows and of the test rows."""

    train: Places
    test: Places


@dataclass(frozen=True, slots=True)
class Split:
    """A named split into folds; the same seed gives the same folds."""

    name: str
    by: Grouping | None = None
    """Rows of the same group are held out together; None: each row is a group of its own."""
    count: int | None = 5
    """Number of folds; None: one fold per group."""

    def groups(self, table: Any) -> Strings:
        """Return the group name of each row."""
        if self.by is None:
            return np.arange(len(table)).astype(str)
        if callable(self.by):
            return self.by(table)
        return np.asarray(getattr(table, self.by)).astype(str)

    def folds(self, table: Any, seed: int = 0) -> list[Fold]:
        """Return the folds; each row is a test row of exactly one fold.

        Raises UsageError where there are fewer groups than folds.
        """
        return folds_of(self.groups(table), self.count, seed)


def folds_of(groups: Strings, count: int | None, seed: int = 0) -> list[Fold]:
    """Return ``count`` folds of rows (None: one fold per group, sorted by name).

    ``groups``: the group name of each row.
    """
    everything = np.arange(len(groups))
    if count is None:
        held = [np.flatnonzero(groups == name) for name in np.unique(groups)]
    else:
        held = [np.array(part) for part in folds(groups.tolist(), count, seed)]
    return [Fold(np.setdiff1d(everything, part), part) for part in held]


def few(groups: Strings, pool: Places, count: int, seed: int | Sequence[int]) -> Fold:
    """Draw ``count`` training rows from ``pool``, at most one per group, by ``seed``.

    The test rows are all rows of ``pool`` whose group has no training row.
    """
    order = np.random.default_rng(seed).permutation(pool)
    first = np.sort(np.unique(groups[order], return_index=True)[1])
    given = np.sort(order[first[:count]])
    return Fold(given, pool[~np.isin(groups[pool], groups[given])])


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


def group_mean(values: Floats, groups: Sequence[str] | Sequence[int]) -> float:
    """Return the mean over groups of each group's mean value."""
    _, place = np.unique(np.array(groups), return_inverse=True)
    return float((np.bincount(place, values) / np.bincount(place)).mean())
