"""``berth bundle``: what a trained predictor is made of, and whether it is whole."""

from __future__ import annotations

import json
import math
from pathlib import Path

import click

from berth.plugin.cli.columns import columns
from berth.predictor import bundle as bundles
from berth.predictor.bundle_files import CARD
from berth.predictor.conformal import DIFFICULTY_FLOOR

_FOLDER = click.argument(
    "folder", required=False, type=click.Path(path_type=Path), default=bundles.DEFAULT_BUNDLE
)


@click.group()
def bundle() -> None:
    """Trained predictors (default: the shipped one)."""


@bundle.command(epilog="Example: berth bundle show")
@_FOLDER
@click.option("--json", "as_json", is_flag=True, help="Print the manifest.")
@click.option("--card", is_flag=True, help="Print the model card.")
def show(folder: Path, as_json: bool, card: bool) -> None:
    """What FOLDER holds: data, calibration, figures."""
    manifest = bundles.verify(folder)
    if as_json:
        click.echo(json.dumps(manifest.model_dump(mode="json", by_alias=True), indent=2))
        return
    if card:
        click.echo((folder / CARD).read_text(encoding="utf-8"), nl=False)
        return
    training = manifest.training
    click.echo(f"{manifest.id}, made {manifest.created} by `{manifest.command}`")
    click.echo(
        f"trained on {training.rows} profiles of {training.kernels} kernels "
        f"measured on {manifest.reference}"
    )
    rows = [
        (
            entry.platform,
            f"{entry.cores} core" if entry.cores else f"{entry.gpus} GPU",
            str(entry.rows),
            f"{math.exp(entry.score_quantile * DIFFICULTY_FLOOR):.2f}",
            f"{math.exp(entry.prior.score_quantile * DIFFICULTY_FLOOR):.2f}",
            entry.label,
        )
        for entry in manifest.labelled
    ]
    header = ("platform", "at", "rows", "90 % factor", "prior's", "labels")
    click.echo(columns(header, rows))
    for name, value in manifest.figures.items():
        click.echo(f"  {name}: {value:.4g}")


@bundle.command(epilog="Example: berth bundle verify my-bundle")
@_FOLDER
def verify(folder: Path) -> None:
    """Check every file of FOLDER against the manifest, and that its models run."""
    click.echo(f"{bundles.load(folder).id}: whole")
