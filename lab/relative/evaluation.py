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
    groups,
    held_out,
)
from lab.relative.figures import log_regrets, vector_figures

Mask: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
SAME = 0.01
"""Two sizes count as equal where the logarithms of all counters differ by less than this."""
FOLDS = 5
"""Number of folds of the split by random rows."""


def by_size(rows: Rows, _seed: int) -> Iterator[Fold]:
    """Yield a fold for each (application, kernel, size) whose kernel has other sizes."""
    kernels = [f"{a}/{k}" for a, k in zip(rows.applications, rows.kernels, strict=True)]
    cells = [f"{k}/{s}" for k, s in zip(kernels, rows.sizes, strict=True)]
    for rest, held in groups(cells):
        if any(kernels[i] == kernels[held[0]] for i in rest):
            yield rest, held


def at_random(rows: Rows, seed: int) -> Iterator[Fold]:
    """Yield five folds of random rows: 80 % to train, 20 % to test; each row is tested once."""
    order = np.random.default_rng(seed).permutation(len(rows))
    for fold in range(FOLDS):
        held = sorted(int(i) for i in order[fold::FOLDS])
        yield sorted(set(range(len(rows))) - set(held)), held


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
    """Return, per row, whether another size of its kernel has the same counters (within 1 %).

    Such a row repeats a workload of the training rows and is not a new size.
    """
    names = list(zip(rows.applications, rows.kernels, strict=True))
    logs = np.log1p(np.maximum(rows.values, 0.0))
    found = np.zeros(len(rows), dtype=np.bool_)
    for i, name in enumerate(names):
        others = [k for k, other in enumerate(names) if other == name and k != i]
        apart = np.nan_to_num(np.abs(logs[others] - logs[i]))
        found[i] = bool((apart < SAME).all(axis=1).any())
    return found


SPLITS = (LEAVE_ONE_APPLICATION_OUT, UNSEEN_SIZE, RANDOM_ROWS)
SHOWN = (LEAVE_ONE_APPLICATION_OUT, UNSEEN_SIZE, NEW_COUNTERS, RANDOM_ROWS)
"""Splits that are reported. ``NEW_COUNTERS`` has some of the rows predicted in ``UNSEEN_SIZE``."""
FEW_FOLDS = (LEAVE_ONE_APPLICATION_OUT, RANDOM_ROWS)
"""Splits for networks, which take seconds a fold; ``UNSEEN_SIZE`` has about one fold per row."""
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
    regret_by_application: dict[str, float]


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
    """Evaluate every family on every split that has folds, with every seed.

    Predictions stored in ``resume`` are not computed again. Raises UsageError for too few rows and
    for rows of a single application.
    """
    check_rows(rows)
    check_applications(rows)
    check_rows_of_folds(rows, FOLDS)
    store = Resume() if resume is None else resume
    results = [
        result
        for split in splits
        if any(True for _ in split.folds(rows, 0))
        for family in families
        for result in _results(
            rows, family, split, seeds=seeds, resume=store, more=more_figures, advance=advance
        )
    ]
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


def _results(
    rows: Rows,
    family: TimesLearner,
    split: Split,
    *,
    seeds: Sequence[int],
    resume: Resume,
    more: MoreFigures,
    advance: Callable[[], None],
) -> Iterator[Result]:
    guesses = [
        predictions(rows, family, split, seed=seed, resume=resume, advance=advance)
        for seed in seeds
    ]
    yield _result(rows, family, split, guesses, more)
    same = repeated(rows) if split is UNSEEN_SIZE else np.zeros(len(rows), dtype=np.bool_)
    new_only = [np.where(same[:, None], np.nan, guess) for guess in guesses]
    if same.any() and np.isfinite(new_only[0]).all(axis=1).any():
        yield _result(rows, family, NEW_COUNTERS, new_only, more)


def _result(
    rows: Rows, family: TimesLearner, split: Split, guesses: Sequence[Floats], more: MoreFigures
) -> Result:
    by_seed = []
    regrets = []
    for each in guesses:
        shown = np.flatnonzero(np.isfinite(each).all(axis=1))
        held, guess = rows.take(shown.tolist()), each[shown]
        by_seed.append({**asdict(vector_figures(held, guess)), **more(held, guess)})
        regrets.append(log_regrets(held, guess))
    names = held.applications
    mean = np.mean(regrets, axis=0) if split is not RANDOM_ROWS else regrets[0]
    return Result(
        family=family.name,
        what=family.what,
        split=split.name,
        figures={k: float(np.mean([f[k] for f in by_seed])) for k in by_seed[0]},
        low={k: min(f[k] for f in by_seed) for k in by_seed[0]},
        high={k: max(f[k] for f in by_seed) for k in by_seed[0]},
        regret_by_application={
            name: float(np.exp(np.mean([r for r, n in zip(mean, names, strict=True) if n == name])))
            for name in sorted(set(names))
        },
    )
