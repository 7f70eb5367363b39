"""Errors of predicted seconds per image: the shipped method and the roofline on the same folds.

Only rows with a graph are predicted. The hyper-parameters of the shipped method are chosen on inner
folds of the training rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from berth.plugin.report.progress_bars import step_bar
from berth.predictor.families.graph.latency.features import GROUPS
from lab.experiments.experiment import Options, learn
from lab.ground.evaluate import Family, Result, held_out
from lab.ground.figures import figures, widths_from_other_folds
from lab.ground.report import Report, results_section
from lab.ground.splits import Split
from lab.ground.table import Floats
from lab.latency import latency_bundle
from lab.latency.fit_latency import Sample, learnt
from lab.latency.own_runs import own_sample
from lab.latency.samples import left_out, samples, works
from lab.latency.timm_runs import FAMILY, MODEL

OURS, ROOF = "operators' sum + process", "roofline"
SPLITS = (MODEL, replace(FAMILY, count=10))
OWN = Split("leave one model out", "group", None)
SHOWN = ("rows", "mean_error", "median_error", "within_10", "kendall_tau", "coverage",
         "interval_factor")  # fmt: skip
STEPS = sum(split.count or 1 for split in SPLITS) + 30
"""About how often ``advance`` is called."""


def latency_report(seed: int, advance: Callable[..., None] = lambda *_: None) -> Report:
    """Return the report. Raises ToolMissing, DocumentError."""
    results = [one for split in SPLITS for one in _on(split, seed, advance)]
    results.append(_own(seed, advance))
    ours = [one for one in results if one.family == OURS]
    return Report(
        "Latency of model graphs on known platforms",
        (
            "Seconds of an image; errors are |predicted / measured - 1|; coverage of the 90 % "
            "interval over architectures, its width from other folds.",
            f"Seed {seed}; {len(works())} graphs.",
        ),
        tuple(
            results_section(
                f"Split: {split}", [one for one in results if one.split == split], SHOWN,
            ) for split in dict.fromkeys(one.split for one in results)
        ),
        {"seed": seed, "described": len(works()), "results": results},
        {f"{one.split}, MAPE": one.figures.mean_error for one in ours}
        | {f"{one.split}, median": one.figures.median_error for one in ours},
    )  # fmt: skip


def _on(split: Split, seed: int, advance: Callable[..., None]) -> list[Result]:
    data, parts = samples(), split.folds(samples().rows, seed)
    said, hard, _ = left_out(split, seed, advance).T
    measured, roof = np.log(data.rows.seconds), np.full(len(data), np.nan)
    fold = np.empty(len(data), np.int64)
    for number, part in enumerate(parts):
        train, test = (rows[data.graph[rows]] for rows in (part.train, part.test))
        roof[test] = _roofline(data.by_graph[train], data.by_graph[test])
        fold[part.test] = number
    off = np.abs(measured - said) / hard
    width = widths_from_other_folds(off, data.rows.architecture, fold) * hard
    results = []
    for method, guess in ((OURS, said), (ROOF, roof)):
        known = ~np.isnan(guess)
        found = figures(
            measured[known], guess[known], data.rows.architecture[known],
            log_width=width[known] if method == OURS else None,
        )  # fmt: skip
        results.append(Result(split.name, method, found))
    return results


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


def _own(seed: int, advance: Callable[..., None]) -> Result:
    """Return the result on our own runs on one core of a CPU."""
    sample, _ = own_sample(works())
    held = held_out(Family(OURS, learnt), sample, OWN.folds(sample), seed=seed, advance=advance)
    found = figures(
        sample.log_seconds[held.rows], held.log_predicted[:, 0], sample.group[held.rows]
    )
    return Result(OWN.name, OURS, found)


def train(options: Options) -> str:
    """Write the bundle from timm's measurements and our own runs; return a line of summary."""
    manifest = learn(options, latency_bundle.train, latency_bundle.STEPS)
    rows = sum(one.rows for one in manifest.settings)
    return f"{manifest.id}: {len(manifest.settings)} settings, {rows} rows"


def evaluate(options: Options) -> Report:
    """Report both splits of timm's rows, and our own runs."""
    with step_bar("evaluating", STEPS) as advance:
        return latency_report(options.seed, advance)
