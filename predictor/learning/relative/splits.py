"""Splits: what is held out, and how the rows of a fold are predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.family import Family
from berth.predictor.learning.resume import Resume

Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Fold = tuple[list[int], list[int]]
"""Indices of training rows and of held-out rows."""
SAME = 0.01
"""Counters closer than this (logarithms) do not tell two sizes apart."""
FOLDS = 5
"""Of random rows."""


@dataclass(frozen=True, slots=True)
class Split:
    """A named way to hold rows out."""

    name: str
    what: str
    """In words, printed beside each figure."""
    folds: Callable[[Rows, int], Iterator[Fold]]


def _groups(keys: Sequence[str]) -> Iterator[Fold]:
    for key in sorted(set(keys)):
        held = [i for i, k in enumerate(keys) if k == key]
        yield [i for i, k in enumerate(keys) if k != key], held


def by_application(rows: Rows, _seed: int) -> Iterator[Fold]:
    """Each application in turn."""
    return _groups(rows.applications)


def by_size(rows: Rows, _seed: int) -> Iterator[Fold]:
    """Each (application, kernel, size) of a kernel that has other sizes, in turn."""
    kernels = [f"{a}/{k}" for a, k in zip(rows.applications, rows.kernels, strict=True)]
    cells = [f"{k}/{s}" for k, s in zip(kernels, rows.sizes, strict=True)]
    for rest, held in _groups(cells):
        if any(kernels[i] == kernels[held[0]] for i in rest):
            yield rest, held


def at_random(rows: Rows, seed: int) -> Iterator[Fold]:
    """Five folds of rows at random: 80 % to learn, 20 % to predict, each row once."""
    order = np.random.default_rng(seed).permutation(len(rows))
    for fold in range(FOLDS):
        held = sorted(int(i) for i in order[fold::FOLDS])
        yield sorted(set(range(len(rows))) - set(held)), held


LEAVE_ONE_APPLICATION_OUT = Split(
    "unseen application", "leave-one-application-out, applications weigh the same", by_application
)
UNSEEN_SIZE = Split(
    "unseen size", "leave-one-(kernel, size)-out: other sizes of the kernel are seen", by_size
)
NEW_COUNTERS = Split(
    "unseen size, new counters",
    "of the same folds, the rows whose counters no other size of the kernel repeats within 1 %",
    by_size,
)
RANDOM_ROWS = Split(
    "random rows", "random 80/20 of rows, five times: kernels and applications are seen", at_random
)


def repeated(rows: Rows) -> Mask:
    """A row: True where another size of its kernel has the same counters (within 1 %).

    Such a row is another measurement of a workload that was seen, not another size.
    """
    names = list(zip(rows.applications, rows.kernels, strict=True))
    logs = np.log1p(np.maximum(rows.values, 0.0))
    found = np.zeros(len(rows), dtype=np.bool_)
    for i, name in enumerate(names):
        others = [k for k, other in enumerate(names) if other == name and k != i]
        apart = np.nan_to_num(np.abs(logs[others] - logs[i]))
        found[i] = bool((apart < SAME).all(axis=1).any())
    return found


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
