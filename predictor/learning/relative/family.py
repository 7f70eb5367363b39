"""What a family of relative performance is to training, what its rows must have, and splits.

A split says what is held out; ``held_out`` predicts the rows of each fold by a model that had not
seen them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.bundle import Model
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.resume import Resume


class Family(Protocol):
    """A way to learn times on many platforms from counters and the reference's time."""

    @property
    def name(self) -> str:
        """Return the name in tables."""
        ...

    @property
    def what(self) -> str:
        """Describe the family to a reader in one line: inputs, model, source."""
        ...

    def fit(self, rows: Rows, seed: int) -> Model:
        """Learn from all rows given, labels missing allowed; choices (if any) by folds inside.

        The same rows and seed give the same model. Raises UsageError where nothing can be learnt.
        """
        ...


def resume_key(family: Family) -> tuple[str, str, str]:
    """Return name, settings, and which platforms it takes for one kind: a part of a key of
    ``Resume``."""
    kinds = dict(getattr(family, "kinds", {}))
    return family.name, family.what, json.dumps(kinds, sort_keys=True)


def check_rows(rows: Rows) -> None:
    """Raise UsageError where nothing can be learnt: no rows, one platform, no times."""
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
"""Indices of training rows and of held-out rows."""


@dataclass(frozen=True, slots=True)
class Split:
    """A named way to hold rows out."""

    name: str
    what: str
    """Words that are printed beside each figure."""
    folds: Callable[[Rows, int], Iterator[Fold]]


def groups(keys: Sequence[str]) -> Iterator[Fold]:
    """Yield a fold for each key: the rows of the other keys, and its own."""
    for key in sorted(set(keys)):
        held = [i for i, k in enumerate(keys) if k == key]
        yield [i for i, k in enumerate(keys) if k != key], held


def by_application(rows: Rows, _seed: int) -> Iterator[Fold]:
    """Hold out each application in turn."""
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
    """Return rows x platforms: log seconds by models that had not seen the row; NaN: never held
    out.

    With ``resume`` each fold is cached under ``key``, so that a run cut short goes on at its fold.
    """
    log_seconds = np.full(rows.log_seconds.shape, np.nan)
    store = Resume() if resume is None else resume
    for number, (train, held) in enumerate(split.folds(rows, seed)):

        def fold(train: list[int] = train, held: list[int] = held) -> Floats:
            fitted = family.fit(rows.take(train), seed)
            return fitted.log_seconds(rows.take(held).knowing())

        log_seconds[held] = store.array(f"{key}/fold {number}", fold)
        advance()
    return log_seconds
