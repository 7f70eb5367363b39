"""What is held out: rows at random, each group in turn, k parts of the groups; few-shot draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from berth.predictor.learning.folds import folds
from lab.ground.table import Places, Strings

Grouping: TypeAlias = Callable[[Any], Strings] | str
"""[rows] the name of each row's group: a column, or a function of the table."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Places of rows."""

    train: Places
    test: Places


@dataclass(frozen=True, slots=True)
class Split:
    """A named way to hold rows out; deterministic by seed."""

    name: str
    by: Grouping | None = None
    """Rows of one group are held out together; None: every row is its own group."""
    count: int | None = 5
    """Folds; None: as many as there are groups, each in turn."""

    def groups(self, table: Any) -> Strings:
        """Return [rows] what is held out together."""
        if self.by is None:
            return np.arange(len(table)).astype(str)
        if callable(self.by):
            return self.by(table)
        return np.asarray(getattr(table, self.by)).astype(str)

    def folds(self, table: Any, seed: int = 0) -> list[Fold]:
        """Return every row is tested once. Raises UsageError where groups are fewer than folds."""
        return folds_of(self.groups(table), self.count, seed)


def folds_of(groups: Strings, count: int | None, seed: int = 0) -> list[Fold]:
    """``count`` folds (None: one a group, by name) over rows of these groups."""
    everything = np.arange(len(groups))
    if count is None:
        held = [np.flatnonzero(groups == name) for name in np.unique(groups)]
    else:
        held = [np.array(part) for part in folds(groups.tolist(), count, seed)]
    return [Fold(np.setdiff1d(everything, part), part) for part in held]


def few(groups: Strings, pool: Places, count: int, seed: int | Sequence[int]) -> Fold:
    """``count`` rows of ``pool``, each of another group, to learn from; to test, the rows of
    ``pool`` whose groups were not given. Drawn by ``seed``."""
    order = np.random.default_rng(seed).permutation(pool)
    first = np.sort(np.unique(groups[order], return_index=True)[1])
    given = np.sort(order[first[:count]])
    return Fold(given, pool[~np.isin(groups[pool], groups[given])])
