"""Training and evaluating the operator model, for ``berth train`` and ``berth evaluate``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from berth.pilot.documents import write_text
from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from berth.plugin.cli.training_input import read_figures, require_training

_HEADER = ("GPU", "of", "method", "rows", "median", "mean", "told / measured")


def train_operators(out: Path, seed: int, figures: Path | None) -> None:
    """The bundle from NeuSight's operators."""
    require_training("training")
    from berth.predictor.training.operators.train import STEPS, train  # noqa: PLC0415 - the extra

    shown = {} if figures is None else read_figures(figures)
    with step_bar("training", STEPS) as advance:
        manifest = train(
            out,
            seed=seed,
            command=" ".join(["berth", *sys.argv[1:]]),
            figures=shown,
            advance=advance,
        )
    click.echo(f"{manifest.id}: {manifest.training.rows} operator rows, written to {out}")


def evaluate_operators(seed: int, report: Path | None, *, as_json: bool) -> None:
    """Operators, whole models and image models on GPUs that nothing was fitted on."""
    require_training("evaluation")
    from berth.predictor.evaluation.operators import rivals, run  # noqa: PLC0415 - the extra

    with step_bar("evaluating", run.STEPS) as advance:
        found = run.evaluate(seed, advance)
    text = json.dumps(found.as_dict(), indent=1)
    if report is not None:
        write_text(report / "evaluation.json", text + "\n")
    if as_json:
        click.echo(text)
        return
    click.echo("Errors are |predicted / measured - 1|; fp32 but for the image models.")
    for split in dict.fromkeys(one.split for one in found.results):
        click.echo(f"\n{split}")
        rows = [
            (
                one.gpu, one.part, one.method, str(one.rows), f"{one.median_error:.1%}",
                f"{one.mean_error:.1%}", f"{one.bias:.2f}",
            )
            for one in found.results
            if one.split == split
        ]  # fmt: skip
        click.echo(columns(_HEADER, rows))
    click.echo("\nPower law chosen without the silicon named:")
    for name, law in found.power.items():
        click.echo(f"  {name}: {law}")
    published = ", ".join(f"{name} {value:.1%}" for name, value in rivals.PUBLISHED.items())
    whole = ", ".join(f"{name} {value:.1%}" for name, value in rivals.PUBLISHED_L4.items())
    click.echo(
        f"\nNeuSight publishes, on its own test sets (quoted, mean errors): {published}; "
        f"whole models on the L4: {whole}"
    )
    for name, why in found.skipped.items():
        click.echo(f"left out, {name}: {why}")
