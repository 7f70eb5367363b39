"""Nested folds over applications, for honest estimates of prediction errors.

For a held-out application ``a``, errors are learnt from the other applications. Each of these is
predicted by a model that was trained without that application and without ``a``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from berth.pilot.version import VERSION
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from lab.ground.resume import Resume, resume_key
from lab.relative.family import TimesLearner, by_application


@dataclass(frozen=True, slots=True)
class Fold:
    """One held-out application, and nested predictions of the training applications."""

    application: str
    index: tuple[int, ...]
    """Numbers of the held-out rows among all rows."""
    held: Rows
    """The held-out rows with all their measured times."""
    log_predicted: Floats
    """Predicted log seconds of the held-out rows, rows x platforms."""
    train: Rows
    log_inner: Floats
    """Predicted log seconds of the training rows, by models trained without the row's application
    and without the held-out one."""


def nested(
    rows: Rows,
    family: TimesLearner,
    *,
    seed: int,
    resume: Resume | None = None,
    advance: Callable[[], None] = lambda: None,
) -> list[Fold]:
    """Return one fold per application; ``advance`` is called after each fit."""

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
            )
        )
    return found


def without(
    rows: Rows,
    family: TimesLearner,
    held: Sequence[str],
    *,
    seed: int,
    resume: Resume | None = None,
) -> Floats:
    """Return log seconds of the applications ``held``, by a model trained without them.

    The shape is rows x platforms, with NaN for all other applications. The result is stored in
    ``resume`` and not computed again.
    """
    out = np.isin(rows.applications, held)

    def predictions() -> Floats:
        found = np.full(rows.log_seconds.shape, np.nan)
        fitted = family.fit(rows.take(np.flatnonzero(~out).tolist()), seed)
        found[out] = fitted.log_seconds(rows.take(np.flatnonzero(out).tolist()).knowing())
        return found

    words = ["without", *sorted(held), *resume_key(family), VERSION, str(seed), rows.digest()]
    return (resume or Resume()).array("/".join(words), predictions)
