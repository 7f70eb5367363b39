"""``berth site platform``: shows the hardware that Berth knows."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from berth.pilot.documents import Document, to_json
from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform, Precision
from berth.pilot.units import format_bytes, format_count
from berth.plugin.cli.options import PATH, SentenceJson, answer, json_option, table_json_option
from berth.plugin.report.terminal import columns
from berth.predictor.hardware import platforms as known
from berth.predictor.hardware.catalogue import devices as catalogue
from berth.predictor.hardware.catalogue import find, platform_named
from berth.predictor.hardware.device import best

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
        _list_devices(json_=json_)
        return
    platforms = known.load(folder)
    if json_:
        click.echo(json.dumps([_summary(p) for p in platforms.values()], indent=2))
        return
    header = ("platform", "kind", "cores", "memory", "flop/s f64", "byte/s", "source")
    rows = []
    for p in platforms.values():
        dram = p.signature.level("dram")
        rows.append(
            (
                p.name,
                p.kind.value,
                str(p.cores),
                format_bytes(p.memory_bytes),
                format_count(p.signature.flops_f64_per_s),
                format_count(dram.total_bytes_per_s if dram else 0.0),
                p.signature.source.value,
            )
        )
    click.echo(columns(header, rows, indent=0))


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


def _list_devices(*, json_: bool) -> None:
    if json_:
        click.echo(json.dumps([d.model_dump(mode="json") for d in catalogue().values()], indent=2))
        return
    shown = (Precision.FP64, Precision.FP32, Precision.BF16, Precision.FP16, Precision.FP8)
    header = ("device", "memory", "GB/s", *(f"{p.value}, T" for p in shown), "W", "also called")
    rows = []
    for d in catalogue().values():
        peaks = [best(d.peaks, p) if d.peaks else None for p in shown]
        figures = [(d.bytes_per_s, 1e9), *((peak, 1e12) for peak in peaks), (d.power_w, 1)]
        cells = ["-" if value is None else f"{value / unit:.4g}" for value, unit in figures]
        memory = "-" if d.memory_bytes is None else format_bytes(d.memory_bytes)
        rows.append((d.name, memory, *cells, ", ".join(d.aliases[:3])))
    click.echo(columns(header, rows, indent=0))


def _summary(p: Platform) -> dict[str, object]:
    dram = p.signature.level("dram")
    return {
        "name": p.name,
        "kind": p.kind.value,
        "cores": p.cores,
        "memory_bytes": p.memory_bytes,
        "flops_f64_per_s": p.signature.flops_f64_per_s,
        "dram_bytes_per_s": dram.total_bytes_per_s if dram else None,
        "source": p.signature.source.value,
        "parent": p.parent,
    }
