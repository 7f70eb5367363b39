"""Errors of predicted seconds per image: the shipped method and baselines on the same folds.

The hyper-parameters of the shipped method are chosen on inner folds of the training rows. Rows
without a graph (part of the table ``all rows``) are predicted from published MACs, activations and
parameters by the same method with fixed hyper-parameters. Rows without these published totals are
predicted by XGBoost on the columns of the table (``scalars``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import xgboost

from berth.pilot.errors import UsageError
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.families.graph.latency.features import GROUPS
from lab.experiments.experiment import Options, learn
from lab.ground.evaluate import Family, Result, held_out
from lab.ground.figures import figures, widths_from_other_folds
from lab.ground.report import Report, results_section
from lab.ground.splits import Split
from lab.ground.table import Floats
from lab.latency import latency_bundle
from lab.latency.fit_latency import Knobs, Sample, choose, corrections, fit_all, learnt, predicted
from lab.latency.own_runs import own_sample
from lab.latency.samples import Samples, samples, works
from lab.latency.timm_runs import ANY_SIZE, FAMILY, MODEL, RANDOM, repeat_floor, scalars

OURS, SUM, TREES, ROOF = (
    "operators' sum + process", "operators' sum", "xgboost, scalars", "roofline",
)  # fmt: skip
_WITH_GRAPH = (SUM, ROOF)
SPLITS = {"random": RANDOM, "model": MODEL, "size": ANY_SIZE, "family": replace(FAMILY, count=10)}
OWN = Split("leave one model out", "group", None)
PARTS = (*SPLITS, "own")
"""Parts of the evaluation, as ``--only`` takes them."""
BARS = {RANDOM.name: 0.04, MODEL.name: 0.08, ANY_SIZE.name: 0.08, FAMILY.name: 0.12}
SHOWN = ("rows", "mean_error", "median_error", "within_10", "kendall_tau", "coverage",
         "interval_factor")  # fmt: skip


def steps(parts: tuple[str, ...]) -> int:
    """Return about how often ``advance`` is called."""
    return sum(SPLITS[part].count or 1 if part in SPLITS else 30 for part in parts)


def latency_report(
    seed: int, parts: tuple[str, ...] = PARTS, advance: Callable[..., None] = lambda *_: None
) -> Report:
    """Return the report of ``parts``. Raises ToolMissing, DocumentError."""
    results: list[Result] = []
    for part in parts:
        results += _own(seed, advance) if part == "own" else _on(SPLITS[part], seed, advance)
    rows = samples().rows
    floor, known = repeat_floor(rows), len(works())
    networks = len(set(zip(rows.model.tolist(), rows.image_size.tolist(), strict=True)))
    bars = {
        one.split: f" (bar: mean {BARS[one.split]:.0%})" for one in results if one.split in BARS
    }
    ours = [one for one in results if one.family == OURS]
    return Report(
        "Latency of model graphs on known platforms",
        (
            "Seconds of an image; errors are |predicted / measured - 1|; knobs chosen on inner "
            "folds; coverage of the 90 % interval over architectures, its width from other folds.",
            f"Floor: {floor.groups} settings timed under several versions of torch stand "
            f"{floor.mean_error:.1%} (median {floor.median_error:.1%}) apart.",
            f"Seed {seed}; {known} graphs for {networks} networks.",
        ),
        tuple(
            results_section(
                f"Split: {split}{bars.get(split, '')}",
                [one for one in results if one.split == split], SHOWN, rows_of="rows of",
            ) for split in dict.fromkeys(one.split for one in results)
        ),
        {"seed": seed, "graphs": networks, "described": known, "floor": floor, "results": results},
        {f"{r.split}, {r.rows_of}, MAPE": r.figures.mean_error for r in ours}
        | {f"{r.split}, {r.rows_of}, median": r.figures.median_error for r in ours},
    )  # fmt: skip


def _on(split: Split, seed: int, advance: Callable[..., None]) -> list[Result]:
    data = samples()
    rows = data.rows
    # With random rows, a network at one image size is in training and test rows; the inner folds
    # that choose the hyper-parameters group rows by network and image size.
    group = rows.groups("architecture", "image_size") if split is RANDOM else split.groups(rows)
    family = Family(split.name, partial(_methods, kriging=split is RANDOM))
    held = held_out(
        family, data.grouped(group), split.folds(rows, seed), seed=seed, advance=advance
    )
    order = np.argsort(held.rows)
    said, fold = held.log_predicted[order], held.fold[order]
    measured, hard = np.log(rows.seconds), said[:, 4]
    off = np.abs(measured - said[:, 0]) / np.where(data.graph, hard, np.nan)
    width = widths_from_other_folds(off, rows.architecture, fold) * hard
    results = []
    for rows_of, where in (
        ("all rows", np.ones(len(rows), bool)), ("with a graph", data.graph),
        ("graph in the archive", rows.has_graph),
    ):  # fmt: skip
        for column, method in enumerate((OURS, SUM, TREES, ROOF)):
            if rows_of == "all rows" and method in _WITH_GRAPH:
                continue
            known = where & ~np.isnan(said[:, column])
            found = figures(
                measured[known], said[known, column], rows.architecture[known],
                log_width=width[known] if method == OURS else None,
            )  # fmt: skip
            results.append(Result(split.name, method, found, rows_of=rows_of))
    return results


def _methods(train: Samples, test: Samples, seed: int, *, kriging: bool) -> Floats:
    """Return [test rows, 5]: log seconds by the four methods, then the shipped method's difficulty.

    ``kriging``: also correct by the errors of the same network in other settings.
    """
    found = np.full((len(test), 5), np.nan)
    trees = xgboost.XGBRegressor(
        n_estimators=600, max_depth=8, learning_rate=0.05, subsample=0.8, colsample_bytree=0.8,
        n_jobs=1, tree_method="hist", random_state=seed,
    )  # fmt: skip
    trees.fit(scalars(train.rows), np.log(train.rows.seconds))
    found[:, 0] = found[:, 2] = trees.predict(scalars(test.rows))
    for by_graph in (False, True):
        known, asked = ((t.by_graph, t.graph) if by_graph else (t.by_totals, t.totals)
                        for t in (train, test))  # fmt: skip
        own, rows = known[0][known[1]], np.flatnonzero(asked[1])
        sample = asked[0][rows]
        fitted = fit_all(own, choose(own, seed) if by_graph else Knobs())
        log_s, hard, base = predicted(fitted, sample).T
        if kriging:
            log_s = log_s + corrections(fitted, own, sample)
        there = ~np.isnan(log_s)
        found[rows[there], 0] = log_s[there]
        if by_graph:
            found[rows, 4], found[rows, 1], found[rows, 3] = hard, base, _roofline(own, sample)
    return found


def _roofline(train: Sample, asked: Sample) -> Floats:
    """Return log seconds: the sum of the operators' rooflines, times one factor per setting.

    The factor is the median of measured time / roofline over the training rows of the setting.
    """
    own, roof = (np.log(one.terms[:, : len(GROUPS)].sum(axis=1)) for one in (train, asked))
    found = np.full(len(asked), np.nan)
    for name in set(asked.setting.tolist()):
        rows = asked.setting == name
        found[rows] = roof[rows] + np.median((train.log_seconds - own)[train.setting == name])
    return found


def _own(seed: int, advance: Callable[..., None]) -> list[Result]:
    sample, _ = own_sample(works())
    held = held_out(Family(OURS, learnt), sample, OWN.folds(sample), seed=seed, advance=advance)
    found = figures(
        sample.log_seconds[held.rows], held.log_predicted[:, 0], sample.group[held.rows]
    )
    return [Result(OWN.name, OURS, found, rows_of="our own CPU")]


def train(options: Options) -> str:
    """Write the bundle from timm's measurements and our own runs; return a line of summary."""
    manifest = learn(options, latency_bundle.train, latency_bundle.STEPS)
    rows = sum(one.rows for one in manifest.settings)
    return f"{manifest.id}: {len(manifest.settings)} settings, {rows} rows"


def evaluate(options: Options) -> Report:
    """Report the parts in ``options.only`` (default: all). Raises UsageError for others."""
    if stray := next((name for name in options.only if name not in PARTS), None):
        raise UsageError(f"there is no part {stray!r}", hint=f"--only {'|'.join(PARTS)}")
    parts = tuple(part for part in PARTS if part in options.only) or PARTS
    with step_bar("evaluating", steps(parts)) as advance:
        return latency_report(options.seed, parts, advance)
