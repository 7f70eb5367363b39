"""Held-out predictions of several methods on one table and one split, and their errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from lab.ground.figures import Figures, figures
from lab.ground.resume import Resume
from lab.ground.splits import Fold, Split
from lab.ground.table import Floats, Places, Strings


class Rows(Protocol):
    """Rows that can be split: a ``Table``, or any sequence indexed by an array of row numbers."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Self: ...


T = TypeVar("T", bound=Rows)


@dataclass(frozen=True, slots=True)
class Family(Generic[T]):
    """A prediction method: Berth's shipped method, a published method, or a baseline."""

    name: str
    predict: Callable[[T, T, int], Floats]
    """Function of (training rows, test rows, seed). It returns the predicted logarithms, [test] or
    [test, targets], and must not read the labels of the test rows."""
    what: str = ""
    """One line that describes the method in a report."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Predictions of held-out rows, fold after fold."""

    rows: Places
    """[n] row numbers in the table; a row can be in several folds."""
    fold: Places
    """[n] number of the fold in which the row was predicted."""
    log_predicted: Floats
    """[n] or [n, targets] predicted logarithms."""
    seconds: float
    """Mean processor time per fold, without what an earlier run had stored."""


def held_out(
    family: Family[T],
    table: T,
    folds: Sequence[Fold],
    *,
    seed: int = 0,
    resume: Resume | None = None,
    key: str = "",
    advance: Callable[..., None] = lambda *_: None,
) -> HeldOut:
    """Fit ``family`` on the training rows of each fold and predict the fold's test rows.

    With ``resume`` the predictions of each fold are stored under ``key``, which must name the data
    and the settings.
    """
    store = Resume() if resume is None else resume
    began, said = time.process_time(), []
    for number, fold in enumerate(folds):

        def predict(fold: Fold = fold) -> Floats:
            return family.predict(table[fold.train], table[fold.test], seed)

        said.append(store.array(f"{key}/{family.name}/{seed}/{number}", predict))
        advance(f"{family.name} {number + 1}")
    return HeldOut(
        np.concatenate([fold.test for fold in folds]),
        np.repeat(np.arange(len(folds)), [len(fold.test) for fold in folds]),
        np.concatenate(said),
        (time.process_time() - began) / len(folds),
    )


@dataclass(frozen=True, slots=True)
class Result:
    """Figures of one method on one split."""

    split: str
    family: str
    figures: Figures
    seconds: float = 0.0
    """Mean processor time per fold."""
    rows_of: str = ""
    """Name of the subset of held-out rows that the figures cover; empty: all rows."""


def evaluate(
    families: Iterable[Family[T]],
    table: T,
    split: Split,
    *,
    log_measured: Floats,
    groups: Strings | Places,
    seed: int = 0,
    resume: Resume | None = None,
    key: str = "",
    advance: Callable[..., None] = lambda *_: None,
) -> list[Result]:
    """Return the result of each family; all families are evaluated on the same folds.

    ``log_measured`` and ``groups``, both [rows], are passed to ``figures``.
    """
    parts = split.folds(table, seed)
    found = []
    for family in families:
        held = held_out(
            family, table, parts, seed=seed, resume=resume, key=f"{key}/{split.name}",
            advance=advance,
        )  # fmt: skip
        shown = figures(log_measured[held.rows], held.log_predicted, groups[held.rows])
        found.append(Result(split.name, family.name, shown, held.seconds))
    return found
