"""``berth train bundle``: shows and verifies bundles."""

from __future__ import annotations

import json
from pathlib import Path

import click

from berth.plugin.bundle_readers import reader_of
from berth.plugin.cli.options import PATH, answer, json_option
from berth.plugin.report.of_bundle import bundle_report
from berth.plugin.report.terminal import report_text
from berth.predictor.core.bundle import CARD
from berth.predictor.families.program.bundle import DEFAULT_BUNDLE

_FOLDER = click.argument("folder", required=False, type=PATH, default=DEFAULT_BUNDLE)


@click.group()
def bundle() -> None:
    """Show and verify trained predictors (default: the shipped one).

    Example: berth train bundle verify my-bundle
    """


@bundle.command(epilog="Example: berth train bundle show")
@_FOLDER
@click.option("--json", "as_json", is_flag=True, help="Print the manifest.")
@click.option("--card", is_flag=True, help="Print the model card.")
def show(folder: Path, as_json: bool, card: bool) -> None:
    """What FOLDER holds: data, calibration, figures."""
    manifest = reader_of(folder).verify(folder)
    if as_json:
        click.echo(json.dumps(manifest.model_dump(mode="json", by_alias=True), indent=2))
        return
    if card:
        click.echo((folder / CARD).read_text(encoding="utf-8"), nl=False)
        return
    click.echo(report_text(bundle_report(manifest)))


@bundle.command(epilog="Example: berth train bundle verify my-bundle")
@_FOLDER
@json_option
def verify(folder: Path, *, json_: bool) -> None:
    """Check every file of FOLDER against the manifest, and that its models run."""
    loaded = reader_of(folder).load(folder)
    answer(f"{loaded.id}: whole", {"bundle": loaded.id, "whole": True}, json_=json_)
