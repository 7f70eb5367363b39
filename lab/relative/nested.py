"""Nested folds over applications: what a model trained without two of them says of both.

For a held-out application ``a`` everything that is learnt about errors comes from the other
applications, each predicted by a model that had seen neither it nor ``a``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.version import VERSION
from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.family import Family, told
from berth.predictor.learning.resume import Resume


@dataclass(frozen=True, slots=True)
class Fold:
    """One application held out, and held-out predictions of the others without it."""

    application: str
    index: tuple[int, ...]
    """Of the held rows among all rows."""
    held: Rows
    """With all their measured times, to be compared with."""
    log_predicted: Floats
    train: Rows
    log_inner: Floats
    """Of the training rows, by models without the row's application and without this one."""

    @property
    def asked(self) -> Rows:
        """The held rows with the reference's times only."""
        return self.held.knowing()


def nested(
    rows: Rows,
    family: Family,
    *,
    seed: int,
    resume: Resume | None = None,
    advance: Callable[[], None] = lambda: None,
) -> list[Fold]:
    """One fold an application. ``advance`` is called once a model is fitted, ``fits`` times."""
    store = Resume() if resume is None else resume
    names = np.array(rows.applications)
    applications = sorted(set(rows.applications))

    def learnt_without(*held: str) -> Floats:
        made = without(rows, family, held, seed=seed, resume=store)
        advance()
        return made

    pairs = {
        frozenset((a, b)): learnt_without(a, b)
        for i, a in enumerate(applications)
        for b in applications[:i]
    }
    found = []
    for application in applications:
        held, rest = np.flatnonzero(names == application), np.flatnonzero(names != application)
        inner = np.vstack(
            [pairs[frozenset((application, str(names[i])))][i] for i in rest.tolist()]
        )
        found.append(
            Fold(
                application=application,
                index=tuple(int(i) for i in held),
                held=rows.take(held.tolist()),
                log_predicted=learnt_without(application)[held],
                train=rows.take(rest.tolist()),
                log_inner=inner,
            )
        )
    return found


def fits(rows: Rows) -> int:
    """How many models ``nested`` fits."""
    count = len(set(rows.applications))
    return count * (count + 1) // 2


def whole(folds: Sequence[Fold], pieces: Sequence[Floats]) -> Floats:
    """One piece a fold (its held rows first) put together in the order of all rows."""
    length = sum(len(fold.index) for fold in folds)
    found = np.full((length, *pieces[0].shape[1:]), np.nan)
    for fold, piece in zip(folds, pieces, strict=True):
        found[list(fold.index)] = piece
    return found


def without(
    rows: Rows, family: Family, held: Sequence[str], *, seed: int, resume: Resume
) -> Floats:
    """Rows x platforms: of the applications ``held`` by a model without them; others NaN.

    Not fitted again where ``resume`` has it.
    """
    out = np.isin(rows.applications, held)

    def predictions() -> Floats:
        fitted = family.fit(rows.take(np.flatnonzero(~out).tolist()), seed)
        found = np.full(rows.log_seconds.shape, np.nan)
        found[out] = fitted.log_seconds(rows.take(np.flatnonzero(out).tolist()).knowing())
        return found

    words = ["without", *sorted(held), *told(family), VERSION, str(seed), rows.digest()]
    return resume.array("/".join(words), predictions)
