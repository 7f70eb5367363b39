"""``python -m lab model-latency``: seconds of an image, by split, beside rivals on the same folds.

The shipped method's knobs are chosen on inner folds of what it learns from. Rows without a graph
(in the table ``all rows``) are told by the same method, its knobs fixed, from published MACs,
activations and parameters; where not even these are published, by the trees on scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xgboost

from berth.predictor.core.intervals import group_quantile
from berth.predictor.families.graph.latency.features import GROUPS, Floats
from lab.latency.data import (
    Flags,
    Floor,
    Places,
    Strings,
    repeat_floor,
    scalars,
)
from lab.latency.own_runs import sample as own_sample
from lab.latency.process import Knobs, Sample, choose, fit_all, held_out, tell
from lab.latency.samples import Samples, samples, works
from lab.latency.siblings import corrections
from lab.latency.splits import (
    ANY_SIZE,
    FAMILY,
    FOLDS,
    MODEL,
    RANDOM,
    Figures,
    Split,
    figures,
    groups_of,
    split,
)

FAMILY_FOLDS = 10
OURS, SUM, TREES, ROOF = (
    "operators' sum + process",
    "operators' sum",
    "xgboost, scalars",
    "roofline",
)
PARTS = ("random", "model", "size", "family", "own")
"""What ``--family`` chooses from."""
BARS = {RANDOM: 0.04, MODEL: 0.08, ANY_SIZE: 0.08, FAMILY: 0.12}


@dataclass(frozen=True, slots=True)
class Result:
    """One method on one split and set of rows."""

    split: str
    rows_of: str
    method: str
    figures: Figures
    coverage: float | None = None
    """Of the nominal 90 % interval; its width is from the other folds' errors."""
    factor: float | None = None
    """Median of upper over middle."""


@dataclass(frozen=True, slots=True)
class LatencyEvaluation:
    """All results, and the floor beside them."""

    results: tuple[Result, ...]
    floor: Floor
    seed: int
    graphs: int
    described: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON; ``shipped`` for the model card."""
        ours = [r for r in self.results if r.method == OURS]
        return {
            "seed": self.seed, "graphs": self.graphs, "described": self.described,
            "floor": asdict(self.floor), "results": [asdict(one) for one in self.results],
            "shipped": {
                f"{r.split}, {r.rows_of}, MAPE": r.figures.mape for r in ours
            } | {f"{r.split}, {r.rows_of}, median": r.figures.median for r in ours},
        }  # fmt: skip


def steps(parts: tuple[str, ...]) -> int:
    """Calls of ``advance``."""
    return sum({"family": FAMILY_FOLDS, "own": 1}.get(part, FOLDS) for part in parts)


def evaluate(
    seed: int, parts: tuple[str, ...] = PARTS, advance: Callable[[str], None] = lambda _: None
) -> LatencyEvaluation:
    """Every part asked for. Raises ToolMissing, DocumentError."""
    data = samples()
    results: list[Result] = []
    kinds = {
        "random": (RANDOM, FOLDS), "model": (MODEL, FOLDS), "size": (ANY_SIZE, FOLDS),
        "family": (FAMILY, FAMILY_FOLDS),
    }  # fmt: skip
    for part in parts:
        if part == "own":
            results.append(_own(seed))
            advance("own runs")
            continue
        kind, count = kinds[part]
        results.extend(_on_split(data, kind, count, seed, advance))
    rows = data.rows
    names = {(m, s) for m, s in zip(rows.model.tolist(), rows.image_size.tolist(), strict=True)}
    return LatencyEvaluation(
        tuple(results), repeat_floor(rows), seed, len(names), len(works())
    )  # fmt: skip


def _on_split(
    data: Samples, kind: str, count: int, seed: int, advance: Callable[[str], None]
) -> list[Result]:
    data = data.grouped(_networks(data) if kind == RANDOM else groups_of(data.rows, kind))
    found = {name: np.full(len(data.rows), np.nan) for name in (OURS, SUM, TREES, ROOF)}
    hard = np.full(len(data.rows), np.nan)
    fold = np.zeros(len(data.rows), dtype=np.int64)
    for n, one in enumerate(split(data.rows, kind, seed=seed, count=count)):
        fold[one.test] = n
        _fold(data, one, seed, found, hard)
        advance(f"{kind} {n + 1}")
    inside, width = _intervals(data, found[OURS], hard, fold)
    results = []
    for rows_of, where in (
        ("all rows", np.ones(len(data.rows), bool)), ("with a graph", data.graph),
        ("graph in the archive", data.archive),
    ):  # fmt: skip
        for method, said in found.items():
            known = where & ~np.isnan(said)
            if rows_of == "all rows" and method in (SUM, ROOF):
                continue
            results.append(Result(
                kind, rows_of, method,
                figures(data.rows.seconds[known], np.exp(said[known]),
                        data.rows.architecture[known]),
                float(inside[known & data.graph].mean()) if method == OURS else None,
                float(np.median(width[known & data.graph])) if method == OURS else None,
            ))  # fmt: skip
    return results


def _networks(data: Samples) -> Strings:
    rows = data.rows
    pairs = zip(rows.architecture.tolist(), rows.image_size.tolist(), strict=True)
    return np.array([f"{name} at {size}" for name, size in pairs])


def _fold(data: Samples, one: Split, seed: int, found: dict[str, Floats], hard: Floats) -> None:
    scalar = scalars(data.rows)
    target = np.log(data.rows.seconds)
    trees = _trees(seed).fit(scalar[one.train], target[one.train])
    found[TREES][one.test] = found[OURS][one.test] = trees.predict(scalar[one.test])
    for sample, where, by_graph in (
        (data.by_totals, data.totals, False), (data.by_graph, data.graph, True),
    ):  # fmt: skip
        train = sample[one.train[where[one.train]]]
        rows = one.test[where[one.test]]
        learnt = fit_all(train, choose(train, seed) if by_graph else Knobs())
        told, difficulty = tell(learnt, sample[rows])
        if one.name == RANDOM:
            told = told + corrections(learnt, train, sample[rows])
        known = ~np.isnan(told)
        found[OURS][rows[known]] = told[known]
        if by_graph:
            hard[rows] = difficulty
            found[SUM][rows] = _sum_alone(learnt, sample[rows])
            found[ROOF][rows] = _roofline(train, sample[rows])


def _trees(seed: int) -> xgboost.XGBRegressor:
    return xgboost.XGBRegressor(
        n_estimators=600, max_depth=8, learning_rate=0.05, subsample=0.8, colsample_bytree=0.8,
        n_jobs=1, tree_method="hist", random_state=seed,
    )  # fmt: skip


def _sum_alone(learnt: dict[str, Any], asked: Sample) -> Floats:
    said = np.full(len(asked), np.nan)
    for name, one in learnt.items():
        rows = np.flatnonzero(asked.setting == name)
        said[rows] = one.process.base(asked.terms[rows])
    return said


def _roofline(train: Sample, asked: Sample) -> Floats:
    """The sum of operators' rooflines, times what a setting reaches of it (one factor each)."""
    said = np.full(len(asked), np.nan)
    roof, own = (_log_roof(sample) for sample in (asked, train))
    for name in set(asked.setting.tolist()):
        rows = asked.setting == name
        reached = np.median((train.log_seconds - own)[train.setting == name])
        said[rows] = roof[rows] + reached
    return said


def _log_roof(sample: Sample) -> Floats:
    return np.asarray(np.log(sample.terms[:, : len(GROUPS)].sum(axis=1)))


def _intervals(data: Samples, told: Floats, hard: Floats, fold: Places) -> tuple[Flags, Floats]:
    """([rows] inside its 90 % interval, [rows] factor): widths from the other folds' errors."""
    score = np.abs(np.log(data.rows.seconds) - told) / hard
    inside, factor = np.zeros(len(told), bool), np.full(len(told), np.nan)
    for n in sorted(set(fold.tolist())):
        own = (fold == n) & data.graph & ~np.isnan(score)
        rest = (fold != n) & data.graph & ~np.isnan(score)
        quantile = group_quantile(
            score[rest].tolist(), data.rows.architecture[rest].tolist()
        )  # fmt: skip
        inside[own] = score[own] <= quantile
        factor[own] = np.exp(quantile * hard[own])
    return inside, factor


def _own(seed: int) -> Result:
    sample, _ = own_sample(works())
    models = sorted(set(sample.group.tolist()))
    everything = np.arange(len(sample))
    parts = [(everything[sample.group != m], everything[sample.group == m]) for m in models]
    told, _ = held_out(sample, parts, seed)
    return Result(
        "leave one model out", "our own CPU", OURS,
        figures(np.exp(sample.log_seconds), np.exp(told), sample.group),
    )  # fmt: skip
