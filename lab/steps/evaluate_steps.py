"""Training steps: the shipped predictor beside TraPPM.

Labels: timm's training rows with a graph (RTX 3090, mixed precision) and our own on one CPU core.
Every method sees the same rows. Splits: the thesis's (70:30 in each family, rows at random, five
seeds), unseen model, unseen family (five folds each). The auto-encoder sees graphs, never labels;
a fifth of the families is out of its training, the rest of the graphs are not, as in the thesis.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from berth.plugin.report.progress_bars import step_bar
from lab.datasets.timm import BENCHMARK, GRAPHS
from lab.experiments.experiment import Options, learn
from lab.graphs.model_runs import DATA
from lab.ground.evaluate import Family, Result, held_out
from lab.ground.figures import figures
from lab.ground.report import USUAL, Report, Section, results_section
from lab.ground.resume import Resume
from lab.ground.splits import Fold
from lab.ground.table import Floats
from lab.latency.timm_runs import FAMILY, MODEL
from lab.published.trappm import auto_encoder, step_regressor, unlabelled_graphs
from lab.steps import moved_rates, step_bundle, step_rows
from lab.steps.step_methods import OURS, encoded, seventy_thirty, shipped, trappm_of
from lab.steps.step_rows import TARGETS, Steps

SEEDS = (1337, 1338, 1339, 1340, 1341)
"""The thesis's."""
ROWS = "rows at random, 70:30 in each family, five seeds"
TITLES = {
    "gpu": "timm's training steps, RTX 3090, amp",
    "cpu": "our training steps, one core of epyc-genoa-vm, fp32",
}
STEPS = 2 * 3 * 5 * 2
"""About how often ``advance`` is called."""


def folds(steps: Steps, seed: int) -> dict[str, list[Fold]]:
    """Return the folds of each split."""
    return {
        ROWS: [Fold(*seventy_thirty(steps, one + seed)) for one in SEEDS],
        MODEL.name: MODEL.folds(steps.runs, seed),
        FAMILY.name: FAMILY.folds(steps.runs, seed),
    }


def table(
    name: str,
    steps: Steps,
    methods: Sequence[Family[Steps]],
    *,
    seed: int,
    resume: Resume,
    key: str = "",
    advance: Callable[..., None] = lambda *_: None,
) -> list[Result]:
    """Return all methods on all splits of one data set."""
    found = []
    for split, parts in folds(steps, seed).items():
        for method in methods:
            held = held_out(
                method, steps, parts, seed=seed, resume=resume, key=f"{key}/{name}/{split}",
                advance=advance,
            )  # fmt: skip
            for column, target in enumerate(TARGETS):
                measured = np.log(steps.labels[held.rows, column])
                guess = held.log_predicted[:, column]
                there = np.isfinite(measured) & np.isfinite(guess)
                if there.any():
                    models = steps.runs.model[held.rows][there]
                    shown = figures(measured[there], guess[there], models)
                    found.append(Result(split, method.name, shown, rows_of=target))
    return found


def steps_report(
    seed: int = 0, resume: Resume | None = None, advance: Callable[..., None] = lambda *_: None
) -> Report:
    """Everything; what ``resume`` holds is not done again. Raises ToolMissing without the data or
    torch."""
    store, key = Resume() if resume is None else resume, f"training-steps/{_digest()}/{seed}"
    encoder = encoded(seed, store, key, advance)
    methods = (shipped(), trappm_of(encoder))
    results = {
        name: table(name, rows, methods, seed=seed, resume=store, key=key, advance=advance)
        for name, rows in (("gpu", step_rows.gpu()), ("cpu", step_rows.cpu()))
    }
    elsewhere = moved_rates.off_elsewhere(seed)
    return _report(results, encoder.about, elsewhere)


def _digest() -> str:
    """Return a digest of the data and designs that every part depends on."""
    found = hashlib.sha256(f"{BENCHMARK.sha256} {GRAPHS.sha256}".encode() + DATA.read_bytes())
    designs = (auto_encoder.Design(), step_regressor.Design(), unlabelled_graphs.CONFIGURATIONS)
    found.update(repr(designs).encode())
    return found.hexdigest()


def _report(
    results: dict[str, list[Result]], edges: dict[str, Any], elsewhere: dict[str, Floats]
) -> Report:
    sections = [
        results_section(
            f"{TITLES[name]}. Split: {split}", [one for one in rows if one.split == split],
            USUAL, rows_of="target",
        )
        for name, rows in results.items() for split in dict.fromkeys(one.split for one in rows)
    ]  # fmt: skip
    sections.append(Section(
        f"Edges predicted, on {edges['held_out']} graphs of families that the auto-encoder never "
        "saw", ("AUC", "AP", "loss"),
        [[f"{edges['edges'][name]:.3f}" for name in ("auc", "ap", "loss")]],
    ))  # fmt: skip
    sections.append(Section(
        "Step time on another device, none of it sampled", ("case", "rows", "mean", "median"),
        [
            (case, str(len(off)), *(f"{each(np.abs(np.expm1(off))):.1%}" for each in (
                np.mean, np.median
            )))
            for case, off in elsewhere.items()
        ],
    ))  # fmt: skip
    errors = {
        f"{TITLES[name]}, {one.split}: {what} error": value
        for name, rows in results.items()
        for one in rows
        if (one.family, one.rows_of) == (OURS, TARGETS[0])
        for what, value in (
            ("mean", one.figures.mean_error), ("median", one.figures.median_error)
        )
    }  # fmt: skip
    return Report(
        "Training steps", ("Errors are |predicted / measured - 1|.",), tuple(sections),
        {"results": results, "edges": edges}, errors,
    )  # fmt: skip


def train(options: Options) -> str:
    """Write the bundle from timm's training rows and our own."""
    manifest = learn(options, step_bundle.train, step_bundle.STEPS)
    rows = sum(head.rows for head in manifest.heads)
    return f"{manifest.id}: {len(manifest.heads)} devices of {rows} rows"


def evaluate(options: Options) -> Report:
    """Report every split, the edges of the auto-encoder, and other devices."""
    with step_bar("evaluating", STEPS) as advance:
        return steps_report(options.seed, Resume(options.unfinished), advance)
