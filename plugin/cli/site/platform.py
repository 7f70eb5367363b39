"""``berth site platform``: shows the hardware that Berth knows."""

from __future__ import annotations

import os
from pathlib import Path

import click

from berth.pilot.documents import Document, to_json, write_json
from berth.pilot.errors import UsageError
from berth.plugin.cli.options import answer, json_option
from berth.plugin.report.of_platform import devices_table, platforms_table, processors_table
from berth.predictor.hardware import platforms as known
from berth.predictor.hardware.by_sheet import like, place_named
from berth.predictor.hardware.catalogue import devices as catalogue
from berth.predictor.hardware.catalogue import find, platform_named
from berth.predictor.hardware.core_speed import core_speed_doubt
from berth.predictor.hardware.processor import processors as every_processor
from berth.predictor.hardware.processor_names import get_processor, known_processor


@click.group()
def platform() -> None:
    """List, show and add kinds of hardware with their measured or published ceilings.

    Example: berth site platform list
    """


@platform.command("list", epilog="Example: berth site platform list 'Xeon Gold 6248'")
@click.argument("name", required=False)
@click.option("--devices", is_flag=True, help="List accelerators by their data sheets instead.")
@click.option("--processors", is_flag=True, help="List CPUs by their data sheets instead.")
@json_option
def list_platforms(name: str | None, devices: bool, processors: bool, json_: bool) -> None:
    """Every platform with its main ceilings and their source.

    With NAME: the accelerator or the CPU of the catalogue that goes by this name, as drivers or
    /proc/cpuinfo have it.
    """
    if name is not None and (device := find(name)) is not None:
        answer(devices_table([device]), [device.model_dump(mode="json")], json_=json_)
        return
    if name is not None or processors:
        sheets = [get_processor(name)] if name is not None else list(every_processor().values())
        cpus = processors_table(sheets)
        answer(cpus, [sheet.model_dump(mode="json") for sheet in sheets], json_=json_)
        return
    if devices:
        accelerators = list(catalogue().values())
        answer(
            devices_table(accelerators),
            [d.model_dump(mode="json") for d in accelerators],
            json_=json_,
        )
        return
    table = platforms_table(list(known.load().values()))
    answer(table, table.data, json_=json_)


@platform.command(epilog="Example: berth site platform show lassen-v100")
@click.argument("name")
@click.option("--json", is_flag=True, expose_value=False, help="Print JSON, as always here.")
def show(name: str) -> None:
    """One platform as JSON, by its name or any name of its accelerator.

    The data sheet of the accelerator or CPU where there is no platform of it.
    """
    platforms = known.load()
    try:
        document: Document = platform_named(name, platforms)
    except UsageError:
        sheet = find(name) or known_processor(name)
        document = place_named(name, platforms) if sheet is None else sheet
    click.echo(to_json(document), nl=False)


@platform.command(epilog="Example: berth site platform add mynode.json")
@click.argument("source")
@click.option(
    "--like",
    "model",
    metavar="NAME",
    help="Make a platform called SOURCE from this platform, or from the data sheet of this "
    "accelerator or CPU.",
)
@click.option(
    "--sockets",
    type=click.IntRange(1, 16),
    help="With --like and a CPU's data sheet: CPUs of a node [1].",
)
@json_option
def add(source: str, model: str | None, sockets: int | None, *, json_: bool) -> None:
    """Check the platform file SOURCE (from `berth pilot bench`) and keep it for predictions.

    It is kept in the folder that $BERTH_PLATFORMS names.

    With --like, SOURCE is the name of a new platform:
    berth site platform add milan --like 'EPYC 7763' --sockets 2. Put the site's memory, price and
    power into the file that is written.
    """
    named = os.environ.get(known.FOLDER_VARIABLE)
    if not named:
        raise UsageError(
            "there is no folder to keep it in", hint=f"name one: export {known.FOLDER_VARIABLE}=DIR"
        )
    folder = Path(named)
    if sockets is not None and model is None:
        raise UsageError("--sockets is for a CPU's data sheet", hint="name the CPU by --like")
    if model is None:
        added = known.add(Path(source), folder)
    else:
        own = known.load(folder) if folder.is_dir() else known.shipped()
        if source in own:
            raise UsageError(
                f"there is a platform {source!r} already",
                hint="choose another name, or edit its file",
            )
        added = like(source, model, own, sockets=sockets)
        write_json(folder / f"{added.name}.json", added)
    note = core_speed_doubt(added) or ""
    answer(
        f"{added.name}: it is in {folder} now" + (f"; {note}" if note else ""),
        {"platform": added.name, "folder": str(folder), "note": note},
        json_=json_,
    )
