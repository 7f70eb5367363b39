"""Training and evaluating the learnt time of model graphs: ``berth train|evaluate --task dl``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from berth.pilot.documents import write_text
from berth.pilot.errors import UsageError
from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from berth.plugin.cli.training_input import read_figures, require_training

if TYPE_CHECKING:
    from berth.predictor.evaluation.latency.run import LatencyEvaluation

TASK = "dl"
_HEADER = ("rows of", "method", "rows", "MAPE", "median", "Acc(10 %)", "tau", "in 90 %", "x")


def train_latency(out: Path, seed: int, figures: Path | None) -> None:
    """The bundle from timm's measurements and our own runs."""
    require_training("training")
    from berth.predictor.training.latency.train import STEPS, train  # noqa: PLC0415 - the extra

    with step_bar("training", STEPS) as advance:
        manifest = train(
            out, seed=seed, command=" ".join(["berth", *sys.argv[1:]]),
            figures={} if figures is None else read_figures(figures), advance=advance,
        )  # fmt: skip
    rows = sum(one.rows for one in manifest.settings)
    click.echo(f"{manifest.id}: {len(manifest.settings)} settings, {rows} rows, written to {out}")


def evaluate_latency(
    seed: int, groups: Sequence[str], report: Path | None, *, as_json: bool
) -> None:
    """The parts in ``groups`` (default: all)."""
    require_training("evaluation")
    from berth.predictor.evaluation.latency.run import PARTS, evaluate, steps  # noqa: PLC0415

    if stray := next((name for name in groups if name not in PARTS), None):
        raise UsageError(f"there is no part {stray!r}", hint=f"--family {'|'.join(PARTS)}")
    parts = tuple(part for part in PARTS if part in groups) or PARTS
    with step_bar("evaluating", steps(parts)) as advance:
        found = evaluate(seed, parts, advance)
    text = json.dumps(found.as_dict(), indent=1)
    tables = _tables(found)
    if report is not None:
        write_text(report / "evaluation.json", text + "\n")
        write_text(report / "report.md", f"```\n{tables}\n```\n")
    click.echo(text if as_json else tables)


def _tables(found: LatencyEvaluation) -> str:
    from berth.predictor.evaluation.latency.run import BARS  # noqa: PLC0415 - needs the extra

    lines = [
        "Seconds of an image; errors are |predicted / measured - 1|; knobs chosen on inner folds.",
        f"Floor: {found.floor.groups} settings timed under several versions of torch stand "
        f"{found.floor.mean_error:.1%} (median {found.floor.median_error:.1%}) apart.",
        f"Seed {found.seed}; {found.described} graphs for {found.graphs} networks.",
    ]
    for split in dict.fromkeys(one.split for one in found.results):
        rows = [
            (
                r.rows_of, r.method, str(r.figures.rows), f"{r.figures.mape:.1%}",
                f"{r.figures.median:.1%}", f"{r.figures.within:.1%}", f"{r.figures.tau:.3f}",
                "-" if r.coverage is None else f"{r.coverage:.1%}",
                "-" if r.factor is None else f"{r.factor:.2f}",
            )
            for r in found.results if r.split == split
        ]  # fmt: skip
        bar = f" (bar: MAPE {BARS[split]:.0%})" if split in BARS else ""
        lines += ["", f"Split: {split}{bar}", columns(_HEADER, rows)]
    return "\n".join(lines)
