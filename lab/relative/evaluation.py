"""Evaluate every family of relative performance by every split, each fold learnt afresh.

A family chooses whatever it chooses by folds inside the training rows (nested); nothing is
chosen on the rows that are reported.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from berth.pilot.errors import UsageError
from berth.pilot.version import VERSION
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.family import (
    LEAVE_ONE_APPLICATION_OUT,
    Family,
    Fold,
    Split,
    check_applications,
    check_rows,
    groups,
    held_out,
    resume_key,
)
from berth.predictor.learning.relative.figures import log_regrets, vector_figures
from berth.predictor.learning.resume import Resume

Mask: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
SAME = 0.01
"""Counters closer than this (logarithms) do not tell two sizes apart."""
FOLDS = 5
"""Of random rows."""


def by_size(rows: Rows, _seed: int) -> Iterator[Fold]:
    """Yield each (application, kernel, size) of a kernel that has other sizes, in turn."""
    kernels = [f"{a}/{k}" for a, k in zip(rows.applications, rows.kernels, strict=True)]
    cells = [f"{k}/{s}" for k, s in zip(kernels, rows.sizes, strict=True)]
    for rest, held in groups(cells):
        if any(kernels[i] == kernels[held[0]] for i in rest):
            yield rest, held


def at_random(rows: Rows, seed: int) -> Iterator[Fold]:
    """Five folds of rows at random: 80 % to learn, 20 % to predict, each row once."""
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
    """Return a row: True where another size of its kernel has the same counters (within 1 %).

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


SPLITS = (LEAVE_ONE_APPLICATION_OUT, UNSEEN_SIZE, RANDOM_ROWS)
SHOWN = (LEAVE_ONE_APPLICATION_OUT, UNSEEN_SIZE, NEW_COUNTERS, RANDOM_ROWS)
"""Splits with figures: ``NEW_COUNTERS`` is a part of the predictions of ``UNSEEN_SIZE``."""
SLOW_SPLITS = (LEAVE_ONE_APPLICATION_OUT, RANDOM_ROWS)
"""Of families that are slow to fit: an unseen size is a fold of its own for each of AIWC's rows."""
SEEDS = (0, 1, 2)
MoreFigures: TypeAlias = Callable[[Rows, Floats], dict[str, float]]
"""Figures of a data set of its own, from rows and predicted log seconds."""


def no_more_figures(_: Rows, __: Floats) -> dict[str, float]:
    """Return the usual figures only."""
    return {}


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the registry: one or more families that come together."""

    group: str
    """What ``--only`` takes."""
    load: Callable[[], Sequence[Family]]
    needs: tuple[str, ...] = ()
    """Modules that must be installed."""
    by_default: bool = True
    """False: evaluated only when named."""
    slow: bool = False
    """True: networks that take seconds a fold; only the splits of few folds are evaluated."""

    @property
    def absent(self) -> tuple[str, ...]:
        """Needed modules that are not installed."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)


@dataclass(frozen=True, slots=True)
class Result:
    """One family by one split, averaged over seeds."""

    family: str
    what: str
    split: str
    figures: dict[str, float]
    low: dict[str, float]
    """Least over seeds."""
    high: dict[str, float]
    regret_by_application: dict[str, float]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All results, and what they are about."""

    data: str
    rows: int
    applications: int
    platforms: tuple[str, ...]
    reference: str
    seeds: tuple[int, ...]
    results: tuple[Result, ...]
    left_out: dict[str, str]
    """Family group -> why it was not evaluated."""

    def as_dict(self) -> dict[str, Any]:
        """Return the evaluation for JSON."""
        return asdict(self)


def steps(
    rows: Rows,
    entries: Iterable[Entry],
    seeds: Sequence[int] = SEEDS,
    splits: Sequence[Split] = SPLITS,
) -> int:
    """Return how often ``evaluate`` will call ``advance`` where nothing is cached."""
    folds = {split.name: len(list(split.folds(rows, 0))) for split in splits}
    return sum(folds[split.name] for split, _ in _plan(rows, entries, splits)) * len(seeds)


def _plan(
    rows: Rows, entries: Iterable[Entry], all_splits: Sequence[Split]
) -> list[tuple[Split, Family]]:
    """Return what is evaluated, split by split; not a split that ``rows`` has no folds of."""
    wanted = [
        (family, SLOW_SPLITS if entry.slow else all_splits)
        for entry in entries
        if not entry.absent
        for family in entry.load()
    ]
    return [
        (split, family)
        for split in all_splits
        if any(True for _ in split.folds(rows, 0))
        for family, splits in wanted
        if split in splits
    ]


def loaded(entries: Iterable[Entry]) -> tuple[tuple[Family, ...], dict[str, str]]:
    """Return the families of ``entries``, and the groups left out with the reason."""
    found: list[Family] = []
    left_out = {}
    for entry in entries:
        if entry.absent:
            left_out[entry.group] = f"{', '.join(entry.absent)} not installed"
        else:
            found.extend(entry.load())
    return tuple(found), left_out


def check_rows_of_folds(rows: Rows, folds: int) -> None:
    """Check rows. Raises UsageError where there are fewer rows than ``folds``."""
    if len(rows) < folds:
        raise UsageError(
            f"{len(rows)} rows are fewer than the {folds} folds of random rows",
            hint="measure more workloads",
        )


def evaluate(
    rows: Rows,
    entries: Iterable[Entry],
    *,
    data: str,
    seeds: Sequence[int] = SEEDS,
    splits: Sequence[Split] = SPLITS,
    resume: Resume | None = None,
    more_figures: MoreFigures = no_more_figures,
    advance: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Every family of ``entries`` by every split and seed; what ``resume`` holds is not redone.

    Raises UsageError for rows that nothing can be learnt from, or of one application only.
    """
    check_rows(rows)
    check_applications(rows)
    check_rows_of_folds(rows, FOLDS)
    groups = tuple(entries)
    _, left_out = loaded(groups)
    store = Resume() if resume is None else resume
    results = [
        result
        for split, family in _plan(rows, groups, splits)
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
        left_out=left_out,
    )


def predictions(
    rows: Rows,
    family: Family,
    split: Split,
    *,
    seed: int,
    resume: Resume,
    advance: Callable[[], None] = lambda: None,
) -> Floats:
    """Return held-out log seconds, rows x platforms; each fold is cached under the family and the
    data."""
    key = "/".join([*resume_key(family), VERSION, split.name, str(seed), rows.digest()])
    return resume.array(
        key,
        lambda: held_out(rows, family, split, seed=seed, resume=resume, key=key, advance=advance),
    )


def _results(
    rows: Rows,
    family: Family,
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
    rows: Rows, family: Family, split: Split, guesses: Sequence[Floats], more: MoreFigures
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
