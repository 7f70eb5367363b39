"""Kernels on one Quartz core and one V100 from one pilot elsewhere, each kernel with all its sizes
left out in turn: the shipped model beside the roofline alone and beside own time times one factor.

The 90 % interval of a kernel is that of the errors of the other kernels, each left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial

import numpy as np

from berth.pilot.platform import Platform
from berth.plugin.cli.train.training_input import command_line
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import group_quantile
from berth.predictor.hardware import platforms as known
from berth.predictor.learning.programs.columns import LabelRows
from lab.datasets.rajaperf import LABELS, RAJAPERF
from lab.experiments.experiment import Options, read_figures
from lab.ground.evaluate import Result
from lab.ground.figures import figures
from lab.ground.report import Report, results_section
from lab.kernels.examples import Example, columns, read_examples
from lab.kernels.program_bundle import train as train_bundle
from lab.kernels.residual_model import ROUNDS, HeldOut, dead_zone_of, fit, held_out

SHIPPED, ROOFLINE, FACTOR = "both", "roofline alone", "own time x factor"
TASKS = 3
"""Quartz core to V100 and, from our own machine, each labelled platform."""


def by_kernel(kernels: Sequence[str]) -> list[list[int]]:
    """Return the row numbers of each kernel."""
    return [[i for i, k in enumerate(kernels) if k == name] for name in sorted(set(kernels))]


def evaluate_methods(
    examples: Sequence[Example],
    platforms: Mapping[str, Platform],
    *,
    seed: int,
    rounds: int = ROUNDS,
    advance: Callable[[], None] = lambda: None,
) -> list[Result]:
    """Run every method on every task. ``advance`` is called after each held-out kernel."""
    home = platforms[examples[0].profile.platform]
    quartz, v100 = platforms["quartz"], platforms["lassen-v100"]
    results: list[Result] = []
    for title, target, reference in (
        ("quartz core -> V100", v100, quartz),
        (f"{home.name} -> quartz core", quartz, home),
        (f"{home.name} -> V100", v100, home),
    ):
        data = columns(examples, target, reference, reference_is_label=reference is quartz)
        parts, dead_zone = by_kernel(data.kernels), dead_zone_of(target)
        fitted = partial(fit, seed=seed, dead_zone=dead_zone, rounds=rounds)
        out = held_out(data, parts, fitted, advance)
        results += _results(title, data, out, parts)
    return results


def _results(
    title: str, data: LabelRows, out: HeldOut, parts: Sequence[Sequence[int]]
) -> list[Result]:
    names, scores, width = np.array(data.kernels), out.scores(data), np.zeros(len(data))
    change, by_factor = data.log_time - data.log_reference, np.zeros(len(data))
    for part in parts:
        others = np.setdiff1d(np.arange(len(data)), part)
        width[part] = group_quantile(list(scores[others]), names[others].tolist())
        by_factor[part] = data.log_reference[part] + np.median(change[others])

    def result(name: str, log_predicted: Floats, log_width: Floats | None = None) -> Result:
        found = figures(
            data.log_time, log_predicted, names, log_width=log_width, log_base=-data.log_reference
        )
        return Result(title, name, found)

    return [
        result(SHIPPED, out.log_time, width * out.difficulty),
        result(ROOFLINE, out.log_roofline),
        result(FACTOR, by_factor),
    ]


_SHOWN = ("median_error", "mean_error", "r2_log", "kendall_tau", "coverage", "interval_factor")
_ON_CARD = ("r2_log", "median_error", "mean_error", "kendall_tau", "coverage")


def train(options: Options) -> str:
    """Write the bundle, fitted on kernel profiles and published times; return a summary."""
    manifest = train_bundle(
        read_examples(), known.shipped(), options.bundle, seed=options.seed,
        command=command_line(), figures=read_figures(options.figures),
    )  # fmt: skip
    return f"{manifest.id}: {manifest.training.rows} profiles"


def evaluate(options: Options) -> Report:
    """Report every method on every task."""
    examples, platforms = read_examples(), known.shipped()
    kernels = len({e.kernel for e in examples})
    with step_bar("evaluating", TASKS * kernels) as advance:
        found = evaluate_methods(examples, platforms, seed=options.seed, advance=advance)
    return report_of(found, len(examples), kernels, options.seed)


def report_of(found: Sequence[Result], rows: int, kernels: int, seed: int) -> Report:
    """Return a table for each task."""
    split = f"leave-one-kernel-out: each of {kernels} kernels with all its sizes is held out"
    source = f"{RAJAPERF.title}; {RAJAPERF.source}; {RAJAPERF.licence}"
    sections = tuple(
        results_section(task, [one for one in found if one.split == task], _SHOWN)
        for task in dict.fromkeys(one.split for one in found)
    )
    shipped = {
        f"{result.split}: {key}": float(getattr(result.figures, key))
        for result in found
        if result.family == SHIPPED
        for key in _ON_CARD
    }
    return Report(
        "How good the predictions of programs are",
        (
            f"Split: {split}.",
            f"Rows: {rows} of {kernels} kernels; seed {seed}. Labels: {source}.",
            *(f"  {name}: {which}" for name, which in LABELS.items()),
            "Errors are of the target's time; R2 and tau (over pairs of different kernels) of the "
            "speedup; coverage of the nominal 90 % interval, whose upper end is the middle times "
            "`interval x` (median).",
        ),
        sections,
        {
            "split": split, "labels": LABELS, "source": source, "rows": rows, "kernels": kernels,
            "seed": seed, "results": [asdict(one) for one in found],
        },
        shipped,
    )  # fmt: skip
