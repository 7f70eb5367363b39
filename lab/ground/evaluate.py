"""Held-out predictions of families on a table by a split, and their figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from berth.predictor.learning.resume import Resume
from lab.ground.figures import Figures, figures
from lab.ground.splits import Fold, Split
from lab.ground.table import Floats, Places, Strings


class Rows(Protocol):
    """What can be split: ``Table``, or anything that is picked from by place."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Self: ...


T = TypeVar("T", bound=Rows)


@dataclass(frozen=True, slots=True)
class Family(Generic[T]):
    """A way to predict: the shipped one, a published one, or a baseline."""

    name: str
    predict: Callable[[T, T, int], Floats]
    """(rows to learn from, rows asked for, seed) -> [asked] or [asked, targets] logarithms; the
    labels of the rows asked for are not looked at."""
    what: str = ""
    """One line for a reader."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Predictions of rows that nothing was learnt from, fold after fold."""

    rows: Places
    """[n] places in the table; a row can stand in several folds."""
    fold: Places
    """[n]"""
    log_predicted: Floats
    """[n] or [n, targets]"""
    seconds: float
    """Processor time of a fold, the mean; of what was computed now."""


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
    """Each fold's test rows by what its training rows teach. With ``resume`` each fold is stored
    under ``key``, which names data and settings."""
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
    """One family on one split."""

    split: str
    family: str
    figures: Figures
    seconds: float = 0.0
    """Processor time of a fold."""
    rows_of: str = ""
    """Which of the held-out rows; empty: all."""


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
    """Return every family on the same folds. ``log_measured``, ``groups`` [rows]: as ``figures``
    wants."""
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
