"""Training of relative-performance models: the protocol of model types, checks of training rows,
and splits.

A split says which rows are held out; ``held_out`` predicts the rows of each fold by a model that
was trained without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows


class TimesModel(Protocol):
    """A trained model of times on many platforms."""

    def log_seconds(self, rows: Rows) -> Floats:
        """Return predicted log seconds [rows, platforms], all finite; known times are returned
        unchanged."""
        ...


class TimesLearner(Protocol):
    """A model type that learns times on many platforms from counters and the reference time."""

    @property
    def name(self) -> str:
        """Return the family's name as tables show it."""
        ...

    @property
    def what(self) -> str:
        """Return one line that describes the family: inputs, model and source."""
        ...

    def fit(self, rows: Rows, seed: int) -> TimesModel:
        """Return a model fitted to all rows; times may be missing.

        Hyper-parameters, if any, are chosen by folds within the rows. The same rows and seed give
        the same model. Raises UsageError where nothing can be learnt.
        """
        ...


def check_rows(rows: Rows) -> None:
    """Raise UsageError where nothing can be learnt: no rows, one platform, no counters, or no
    measured times."""
    if not len(rows):
        raise UsageError(
            "there are no rows to learn from",
            hint="an application can be left out only where there is another one",
        )
    if len(rows.platforms) < 2:
        raise UsageError(
            f"{rows.reference} is the only platform: there is nothing to compare it with",
            hint="give times on at least one other platform",
        )
    if not rows.counters:
        raise UsageError("the rows have no counters")
    lost = np.flatnonzero(~np.isfinite(rows.log_reference))
    if len(lost):
        row = int(lost[0])
        raise UsageError(
            f"{rows.applications[row]}/{rows.kernels[row]} ({rows.sizes[row]}) has no time on the "
            f"reference {rows.reference}",
            hint="leave the row out or measure it there",
        )
    if np.isinf(rows.log_seconds).any():
        raise UsageError("a time is zero or infinite", hint="write a missing time as NaN")
    others = np.delete(rows.log_seconds, rows.reference_column, axis=1)
    if not np.isfinite(others).any():
        raise UsageError("no row has a time on any platform but the reference")


def check_applications(rows: Rows, folds: int = 2) -> None:
    """Raise UsageError where there are fewer applications than ``folds``."""
    count = len(set(rows.applications))
    if count < folds:
        raise UsageError(
            f"{count} applications are fewer than the {folds} that can be left out in turn",
            hint="measure more applications",
        )


Fold = tuple[list[int], list[int]]
"""Indices of the training rows, and of the held-out rows."""


@dataclass(frozen=True, slots=True)
class Split:
    """A named way to divide rows into training and held-out rows."""

    name: str
    what: str
    """Text that is printed beside each figure."""
    folds: Callable[[Rows, int], Iterator[Fold]]
    """Function from the rows and a seed to the folds."""


def groups(keys: Sequence[str]) -> Iterator[Fold]:
    """Yield a fold for each key: the row indices of all other keys, and those of the key."""
    for key in sorted(set(keys)):
        held = [i for i, k in enumerate(keys) if k == key]
        yield [i for i, k in enumerate(keys) if k != key], held


def by_application(rows: Rows, _seed: int) -> Iterator[Fold]:
    """Yield a fold for each application, which holds its rows out."""
    return groups(rows.applications)


Stored = Callable[[str, Callable[[], Floats]], Floats]
"""A function that returns what it computed before under a key, or calls the other function."""


LEAVE_ONE_APPLICATION_OUT = Split(
    "unseen application", "leave-one-application-out, applications weigh the same", by_application
)


def held_out(
    rows: Rows,
    family: TimesLearner,
    split: Split,
    *,
    seed: int,
    stored: Stored = lambda _, make: make(),
    advance: Callable[[], None] = lambda: None,
) -> Floats:
    """Return log seconds [rows, platforms] predicted by models that were trained without the row.

    NaN for rows that are never held out. ``stored`` is asked for each fold by its number.
    """
    log_seconds = np.full(rows.log_seconds.shape, np.nan)
    for number, (train, held) in enumerate(split.folds(rows, seed)):

        def fold(train: list[int] = train, held: list[int] = held) -> Floats:
            fitted = family.fit(rows.take(train), seed)
            return fitted.log_seconds(rows.take(held).knowing())

        log_seconds[held] = stored(f"fold {number}", fold)
        advance()
    return log_seconds
