"""Nested folds over applications: what a model trained without two of them predicts of both.

For a held-out application ``a`` everything that is learnt about errors comes from the other
applications, each predicted by a model that had seen neither it nor ``a``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from berth.pilot.version import VERSION
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.trust import Trust
from berth.predictor.learning.relative.family import Family, by_application, resume_key
from berth.predictor.learning.relative.trust import fit_trust
from berth.predictor.learning.resume import Resume

SPLIT = (
    "nested leave-one-application-out: errors, intervals, thresholds and advice of a held-out "
    "application come from models and residuals of the other applications only"
)


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
    trust: Trust
    """Learnt from the training rows and ``log_inner``."""

    @property
    def asked(self) -> Rows:
        """Return the held rows with the reference's times only."""
        return self.held.knowing()


def nested(
    rows: Rows,
    family: Family,
    *,
    seed: int,
    resume: Resume | None = None,
    advance: Callable[[], None] = lambda: None,
) -> list[Fold]:
    """Return one fold an application. ``advance`` is called once a model is fitted, ``fits``
    times."""

    def learnt_without(*held: str) -> Floats:
        made = without(rows, family, held, seed=seed, resume=resume)
        advance()
        return made

    applications = sorted(set(rows.applications))
    pairs = {frozenset(pair): learnt_without(*pair) for pair in combinations(applications, 2)}
    found = []
    for rest, held in by_application(rows, 0):
        name, train = rows.applications[held[0]], rows.take(rest)
        inner = np.vstack([pairs[frozenset((name, rows.applications[i]))][i] for i in rest])
        found.append(
            Fold(
                application=name,
                index=tuple(held),
                held=rows.take(held),
                log_predicted=learnt_without(name)[held],
                train=train,
                log_inner=inner,
                trust=fit_trust(train, inner),
            )
        )
    return found


def fits(rows: Rows) -> int:
    """Return how many models ``nested`` fits."""
    count = len(set(rows.applications))
    return count * (count + 1) // 2


def in_row_order(folds: Sequence[Fold], pieces: Sequence[Floats]) -> Floats:
    """Return one piece a fold (its held rows first) put together in the order of all rows."""
    joined = np.concatenate(pieces)
    found = np.empty_like(joined)
    found[[i for fold in folds for i in fold.index]] = joined
    return found


def without(
    rows: Rows, family: Family, held: Sequence[str], *, seed: int, resume: Resume | None = None
) -> Floats:
    """Return rows x platforms: of the applications ``held`` by a model without them; others NaN.

    Not fitted again where ``resume`` has it.
    """
    out = np.isin(rows.applications, held)

    def predictions() -> Floats:
        found = np.full(rows.log_seconds.shape, np.nan)
        fitted = family.fit(rows.take(np.flatnonzero(~out).tolist()), seed)
        found[out] = fitted.log_seconds(rows.take(np.flatnonzero(out).tolist()).knowing())
        return found

    words = ["without", *sorted(held), *resume_key(family), VERSION, str(seed), rows.digest()]
    return (resume or Resume()).array("/".join(words), predictions)
