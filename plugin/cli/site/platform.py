"""``berth site platform``: shows the hardware that Berth knows."""

from __future__ import annotations

import os
from pathlib import Path

import click

from berth.pilot.documents import Document, to_json
from berth.pilot.errors import UsageError
from berth.plugin.cli.options import PATH, SentenceJson, answer, json_option, table_json_option
from berth.plugin.report.of_platform import devices_table, platforms_table
from berth.predictor.hardware import platforms as known
from berth.predictor.hardware.catalogue import devices as catalogue
from berth.predictor.hardware.catalogue import find, platform_named

_FOLDER = click.option(
    "--platforms",
    "folder",
    type=PATH,
    help=f"A site's own platform files (default: ${known.FOLDER_VARIABLE}).",
)


@click.group()
def platform() -> None:
    """List, show and add kinds of hardware with their measured or published ceilings.

    Example: berth site platform list
    """


@platform.command("list", epilog="Example: berth site platform list")
@_FOLDER
@click.option("--devices", is_flag=True, help="List accelerators by their data sheets instead.")
@table_json_option
def list_platforms(folder: Path | None, devices: bool, json_: bool) -> None:
    """Every platform with its main ceilings and their source."""
    if devices:
        sheets = list(catalogue().values())
        answer(devices_table(sheets), [d.model_dump(mode="json") for d in sheets], json_=json_)
        return
    table = platforms_table(list(known.load(folder).values()))
    answer(table, table.data, json_=json_)


@platform.command(epilog="Example: berth site platform show lassen-v100")
@click.argument("name")
@_FOLDER
@click.option(
    "--json", cls=SentenceJson, is_flag=True, expose_value=False, help="Print JSON, as always here."
)
def show(name: str, folder: Path | None) -> None:
    """One platform as JSON, by its name or any name of its accelerator.

    The accelerator's data sheet where there is no platform of it.
    """
    platforms = known.load(folder)
    try:
        document: Document = platform_named(name, platforms)
    except UsageError:
        device = find(name)
        if device is None:
            raise
        document = device
    click.echo(to_json(document), nl=False)


@platform.command(
    epilog="Example: berth site platform add mynode.json --platforms /etc/berth/platforms"
)
@click.argument("source", type=PATH)
@_FOLDER
@json_option
def add(source: Path, folder: Path | None, *, json_: bool) -> None:
    """Check the platform file SOURCE (from `berth pilot bench`) and keep it for predictions."""
    if folder is None and os.environ.get(known.FOLDER_VARIABLE):
        folder = Path(os.environ[known.FOLDER_VARIABLE])
    if folder is None:
        raise UsageError(
            "there is no folder to keep it in",
            hint=f"name one by --platforms or {known.FOLDER_VARIABLE}",
        )
    added = known.add(source, folder)
    answer(
        f"{added.name}: it is in {folder} now",
        {"platform": added.name, "folder": str(folder)},
        json_=json_,
    )
