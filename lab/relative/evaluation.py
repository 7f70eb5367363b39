"""Evaluate every family (method) of relative performance on every split, fitted anew per fold.

Hyper-parameters are chosen by folds inside the training rows (nested), never on the test rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

import numpy as np

from berth.pilot.errors import UsageError
from berth.pilot.version import VERSION
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from lab.ground.resume import Resume, resume_key
from lab.relative.family import (
    LEAVE_ONE_APPLICATION_OUT,
    Fold,
    Split,
    TimesLearner,
    check_applications,
    check_rows,
    held_out,
)
from lab.relative.figures import vector_figures

FOLDS = 5
"""Number of folds of the split by random rows."""


def at_random(rows: Rows, seed: int) -> Iterator[Fold]:
    """Yield five folds of random rows: 80 % to train, 20 % to test; each row is tested once."""
    order = np.random.default_rng(seed).permutation(len(rows))
    for fold in range(FOLDS):
        held = sorted(int(i) for i in order[fold::FOLDS])
        yield sorted(set(range(len(rows))) - set(held)), held


RANDOM_ROWS = Split(
    "random rows", "random 80/20 of rows, five times: kernels and applications are seen", at_random
)
SPLITS = (LEAVE_ONE_APPLICATION_OUT, RANDOM_ROWS)
SEEDS = (0, 1, 2)
MoreFigures: TypeAlias = Callable[[Rows, Floats], dict[str, float]]
"""Function that computes further figures of one data set, from rows and predicted log seconds."""


def no_more_figures(_: Rows, __: Floats) -> dict[str, float]:
    """Return no further figures."""
    return {}


@dataclass(frozen=True, slots=True)
class Result:
    """Figures of one family on one split, averaged over seeds."""

    family: str
    what: str
    split: str
    figures: dict[str, float]
    low: dict[str, float]
    """Least value of each figure over seeds."""
    high: dict[str, float]
    """Greatest value of each figure over seeds."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All results, with the data set that they were computed on."""

    data: str
    rows: int
    applications: int
    platforms: tuple[str, ...]
    reference: str
    seeds: tuple[int, ...]
    results: tuple[Result, ...]


def steps(
    rows: Rows,
    families: Sequence[TimesLearner],
    seeds: Sequence[int] = SEEDS,
    splits: Sequence[Split] = SPLITS,
) -> int:
    """Return how often ``evaluate`` will call ``advance`` where nothing is cached."""
    folds = sum(len(list(split.folds(rows, 0))) for split in splits)
    return folds * len(families) * len(seeds)


def check_rows_of_folds(rows: Rows, folds: int) -> None:
    """Raise UsageError where there are fewer rows than ``folds``."""
    if len(rows) < folds:
        raise UsageError(
            f"{len(rows)} rows are fewer than the {folds} folds of random rows",
            hint="measure more workloads",
        )


def evaluate(
    rows: Rows,
    families: Sequence[TimesLearner],
    *,
    data: str,
    seeds: Sequence[int] = SEEDS,
    splits: Sequence[Split] = SPLITS,
    resume: Resume | None = None,
    more_figures: MoreFigures = no_more_figures,
    advance: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Evaluate every family on every split, with every seed.

    Predictions stored in ``resume`` are not computed again. Raises UsageError for too few rows and
    for rows of a single application.
    """
    check_rows(rows)
    check_applications(rows)
    check_rows_of_folds(rows, FOLDS)
    store = Resume() if resume is None else resume
    results = []
    for split in splits:
        for family in families:
            guesses = [
                predictions(rows, family, split, seed=seed, resume=store, advance=advance)
                for seed in seeds
            ]
            results.append(_result(rows, family, split, guesses, more_figures))
    return Evaluation(
        data=data,
        rows=len(rows),
        applications=len(set(rows.applications)),
        platforms=rows.platforms,
        reference=rows.reference,
        seeds=tuple(seeds),
        results=tuple(results),
    )


def predictions(
    rows: Rows,
    family: TimesLearner,
    split: Split,
    *,
    seed: int,
    resume: Resume,
    advance: Callable[[], None] = lambda: None,
) -> Floats:
    """Return held-out log seconds, rows x platforms.

    ``resume`` stores the folds under a key of family, version, split, seed and data.
    """
    key = "/".join([*resume_key(family), VERSION, split.name, str(seed), rows.digest()])
    return resume.array(
        key,
        lambda: held_out(
            rows,
            family,
            split,
            seed=seed,
            advance=advance,
            stored=lambda fold, make: resume.array(f"{key}/{fold}", make),
        ),
    )


def _result(
    rows: Rows, family: TimesLearner, split: Split, guesses: Sequence[Floats], more: MoreFigures
) -> Result:
    by_seed = [{**asdict(vector_figures(rows, each)), **more(rows, each)} for each in guesses]
    return Result(
        family=family.name,
        what=family.what,
        split=split.name,
        figures={k: float(np.mean([f[k] for f in by_seed])) for k in by_seed[0]},
        low={k: min(f[k] for f in by_seed) for k in by_seed[0]},
        high={k: max(f[k] for f in by_seed) for k in by_seed[0]},
    )
