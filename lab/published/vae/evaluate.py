"""VAE + DNN beside the random forest of its abstract: R2, whole orders right, ROC of the order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.folds import folds
from berth.predictor.learning.metrics import r2
from berth.predictor.learning.relative.family import Family
from berth.predictor.learning.relative.splits import (
    LEAVE_ONE_APPLICATION_OUT,
    RANDOM_ROWS,
    Fold,
    Split,
    held_out,
)
from berth.predictor.learning.resume import Resume
from lab.published.vae.family import VaeFamily
from lab.relative.baselines import BASELINES
from lab.relative.data import aiwc_rows
from lab.relative.order_of_four import order_figures
from lab.relative.rajaperf import rajaperf_rows

FOREST = next(family for family in BASELINES if family.name == "random forest")
_SHOWN = ("order_of_four", "order_of_four_roc_area")


def _ten(rows: Rows, seed: int) -> Iterator[Fold]:
    for held in folds(rows.applications, 10, seed):
        yield sorted(set(range(len(rows))) - set(held)), held


TEN_FOLDS = Split("unseen kernel", "ten folds of kernels, none in two of them", _ten)


@dataclass(frozen=True, slots=True)
class Line:
    """One family on one data set by one split; one figure a seed."""

    data: str
    split: str
    family: str
    r2_log_speedup: tuple[float, ...]
    median_error: tuple[float, ...]
    """Over all rows and targets, of the time on the target."""
    order_of_four: tuple[float, ...]
    """Share of rows whose four platforms are in the right order; empty: fewer platforms."""
    roc_area: tuple[float, ...]


def plan() -> list[tuple[str, Rows, Split, Family]]:
    """What is evaluated. Raises ToolMissing without the data sets."""
    aiwc = aiwc_rows()
    kernels = rajaperf_rows().with_platforms(("quartz", "lassen-v100"))
    return [
        (data, rows, split, family)
        for data, rows, splits, ours in (
            ("AIWC", aiwc, (RANDOM_ROWS, LEAVE_ONE_APPLICATION_OUT), VaeFamily()),
            ("RAJAPerf", kernels, (RANDOM_ROWS, TEN_FOLDS), VaeFamily(counted_on_cpu=True)),
        )
        for split in splits
        for family in (FOREST, ours)
    ]


def evaluate(
    seeds: Sequence[int], resume: Resume | None = None, advance: Callable[[], None] = lambda: None
) -> list[Line]:
    """Every line of ``plan``; ``advance`` is called once a line and seed."""
    store = Resume() if resume is None else resume
    return [_line(*what, seeds=seeds, resume=store, advance=advance) for what in plan()]


def _line(
    data: str,
    rows: Rows,
    split: Split,
    family: Family,
    *,
    seeds: Sequence[int],
    resume: Resume,
    advance: Callable[[], None],
) -> Line:
    rows = without_missing(rows)
    targets = [i for i, name in enumerate(rows.platforms) if name != rows.reference]
    scores, errors = [], []
    orders: dict[str, list[float]] = {name: [] for name in _SHOWN}
    for seed in seeds:

        def make(seed: int = seed) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
            return held_out(rows, family, split, seed=seed)

        key = f"vae-dnn/{data}/{split.name}/{family.what}/{rows.platforms}/{seed}"
        guess = resume.array(key, make)
        measured, predicted = rows.log_seconds[:, targets], guess[:, targets]
        here = rows.log_reference[:, None]
        scores.append(r2((here - measured).ravel(), (here - predicted).ravel()))
        errors.append(float(np.median(np.abs(np.expm1(predicted - measured)))))
        for name, value in order_figures(rows, guess).items():
            if name in orders:
                orders[name].append(value)
        advance()
    return Line(
        data=data,
        split=f"{split.name}: {split.what}",
        family=family.name,
        r2_log_speedup=tuple(scores),
        median_error=tuple(errors),
        order_of_four=tuple(orders["order_of_four"]),
        roc_area=tuple(orders["order_of_four_roc_area"]),
    )


def without_missing(rows: Rows) -> Rows:
    """Only counters that every row has: the random forest takes no missing ones."""
    whole = np.asarray(np.isfinite(rows.values).all(axis=0))
    return Rows(
        counters=tuple(n for n, keep in zip(rows.counters, whole.tolist(), strict=True) if keep),
        values=rows.values[:, whole],
        platforms=rows.platforms,
        reference=rows.reference,
        log_seconds=rows.log_seconds,
        applications=rows.applications,
        kernels=rows.kernels,
        sizes=rows.sizes,
    )
