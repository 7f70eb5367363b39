"""Splits: what is held out, and how the rows of a fold are predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.family import Family
from berth.predictor.learning.resume import Resume

Fold = tuple[list[int], list[int]]
"""Indices of training rows and of held-out rows."""


@dataclass(frozen=True, slots=True)
class Split:
    """A named way to hold rows out."""

    name: str
    what: str
    """In words, printed beside each figure."""
    folds: Callable[[Rows, int], Iterator[Fold]]


def groups(keys: Sequence[str]) -> Iterator[Fold]:
    """Yield a fold for each key: the rows of the other keys, and its own."""
    for key in sorted(set(keys)):
        held = [i for i, k in enumerate(keys) if k == key]
        yield [i for i, k in enumerate(keys) if k != key], held


def by_application(rows: Rows, _seed: int) -> Iterator[Fold]:
    """Each application in turn."""
    return groups(rows.applications)


LEAVE_ONE_APPLICATION_OUT = Split(
    "unseen application", "leave-one-application-out, applications weigh the same", by_application
)


def held_out(
    rows: Rows,
    family: Family,
    split: Split,
    *,
    seed: int,
    resume: Resume | None = None,
    key: str = "",
    advance: Callable[[], None] = lambda: None,
) -> Floats:
    """Rows x platforms: log seconds by models that had not seen the row; NaN: never held out.

    With ``resume`` each fold is cached under ``key``, so that a run cut short goes on at its fold.
    """
    found = np.full(rows.log_seconds.shape, np.nan)
    store = Resume() if resume is None else resume
    for number, (train, held) in enumerate(split.folds(rows, seed)):

        def fold(train: list[int] = train, held: list[int] = held) -> Floats:
            fitted = family.fit(rows.take(train), seed)
            return fitted.log_seconds(rows.take(held).knowing())

        found[held] = store.array(f"{key}/fold {number}", fold)
        advance()
    return found
