"""Training and evaluating the slice predictor, for ``berth train`` and ``berth evaluate``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from berth.pilot.documents import write_text
from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from berth.plugin.cli.training_input import read_figures, require_training

_HEADER = ("method", "rows", "median", "mean", "p90", "of speed", "in 90 %", "in 95 %", "x", "told")


def train_slices(out: Path, seed: int, figures: Path | None) -> None:
    """The bundle from MISO and ParvaGPU."""
    require_training("training")
    from berth.predictor.training.slices.train import STEPS, train  # noqa: PLC0415 - needs the extra

    shown = {} if figures is None else read_figures(figures)
    with step_bar("training", STEPS) as advance:
        manifest = train(
            out,
            seed=seed,
            command=" ".join(["berth", *sys.argv[1:]]),
            figures=shown,
            advance=advance,
        )
    rows = sum(entry.rows for entry in manifest.methods)
    click.echo(f"{manifest.id}: {len(manifest.methods)} methods on {rows} rows, written to {out}")


def evaluate_slices(seed: int, report: Path | None, as_json: bool) -> None:
    """Leave-one-model-out on both data sets, with the rivals."""
    require_training("evaluation")
    from berth.predictor.evaluation.slices.run import STEPS, evaluate  # noqa: PLC0415

    with step_bar("evaluating", STEPS) as advance:
        found = evaluate(seed, advance)
    text = json.dumps(found.as_dict(), indent=1)
    if report is not None:
        write_text(report / "evaluation.json", text + "\n")
    if as_json:
        click.echo(text)
        return
    click.echo(f"Split: {found.split}; errors are |predicted / measured - 1| of t_slice / t_whole.")
    for name in dict.fromkeys(r.task for r in found.results):
        click.echo(f"\n{name}")
        rows = [
            (
                r.method,
                str(r.figures.rows),
                f"{r.figures.median_error:.1%}",
                f"{r.figures.mean_error:.1%}",
                f"{r.figures.p90_error:.1%}",
                f"{r.figures.median_speed_error:.1%} / {r.figures.mean_speed_error:.1%}",
                *(
                    "-" if v is None else f"{v:.1%}"
                    for v in (r.figures.coverage_90, r.figures.coverage_95)
                ),
                "-" if r.figures.factor_90 is None else f"{r.figures.factor_90:.2f}",
                r.told,
            )
            for r in found.results
            if r.task == name
        ]
        click.echo(columns(_HEADER, rows))
    fits = found.fits
    click.echo(
        f"\nfits, from the memory reserved on the whole GPU: {fits.said_but_failed} said to fit "
        f"and failed (of {fits.said_but_failed + fits.refused_and_failed} that failed), "
        f"{fits.refused_but_ran} refused that would have run (of "
        f"{fits.refused_but_ran + fits.said_and_ran} that ran)"
    )
