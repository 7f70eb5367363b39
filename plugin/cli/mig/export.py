"""``berth mig export``: writes a plan or a fleet in mig-parted's or a scheduler's format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from berth.pilot.documents import json_data, read_json, read_text, write_text
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.units import whole_number
from berth.plugin.cli.options import FILE, POSITIVE
from berth.plugin.mig.parted import MigConfigSpec, entries, write
from berth.plugin.scheduler import SCHEDULERS, scheduler_named
from berth.policies.mig import Geometry, Layout, lookup
from berth.policies.mig.documents import PlanDocument, read_fleet

FLEET_SCHEMA = "berth.mig-fleet/1"
Device = tuple[int, Geometry, Layout, bool]


@click.command()
@click.argument("source", type=FILE)
@click.option("--name", default="berth", help="Name of the configuration.")
@click.option(
    "--scheduler",
    type=click.Choice(SCHEDULERS.names()),
    help="Write this scheduler's configuration instead.",
)
@click.option("--cores", type=POSITIVE, help="With --scheduler: cores of each node.")
@click.option("--output", type=FILE, help="File to write. Default: print.")
def export(
    source: Path, name: str, scheduler: str | None, cores: int | None, output: Path | None
) -> None:
    """Write SOURCE, a plan or a fleet file, as a mig-parted configuration.

    One configuration for each node, NAME or NAME-NODE where there are several; the node and the
    device number are those of the GPU's name (NODE/INDEX).

    mig-parted names no placements: its own tool may place the slices otherwise.

    With --scheduler: what it must be configured with so that jobs can choose among the slices.

    Example: berth mig export plan.json --output mig.yaml
    """
    if (scheduler is None) != (cores is None):
        raise click.UsageError("--scheduler and --cores go together")
    nodes: dict[str, list[Device]] = {}
    for number, (gpu, geometry, layout, enabled) in enumerate(_gpus(source)):
        node, slash, index = gpu.rpartition("/")
        at = whole_number(index)
        if slash and at is None:
            raise UsageError(f"{gpu}: the device number after the slash is not a number")
        device = number if at is None else at
        nodes.setdefault(node, []).append((device, geometry, layout, enabled))
    if scheduler is not None and cores is not None:
        cut = {node: [layout for *_, layout, _ in devices] for node, devices in nodes.items()}
        text = scheduler_named(scheduler).slice_config(cut, cores)
    else:
        text = write(_configurations(name, nodes))
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(output, text)


def _configurations(
    name: str, nodes: Mapping[str, Sequence[Device]]
) -> dict[str, tuple[MigConfigSpec, ...]]:
    return {
        (name if len(nodes) == 1 else f"{name}-{node or 'local'}"): entries(devices)
        for node, devices in nodes.items()
    }


def _gpus(source: Path) -> list[tuple[str, Geometry, Layout, bool]]:
    schema = _schema(source)
    if schema == FLEET_SCHEMA:
        states = read_fleet((source,))[1]
        return [(s.gpu, s.geometry, s.layout, s.mig_enabled) for s in states]
    if schema != "berth.mig-plan/1":
        raise DocumentError(source, f"is {schema!r}, no plan and no fleet file", key="schema")
    gpus = []
    for number, gpu in enumerate(read_json(source, PlanDocument).gpus):
        try:
            geometry = lookup(gpu.model)
            layout = Layout.parse(" ".join(gpu.after)).check(geometry)
        except UsageError as error:
            raise DocumentError(
                source, error.message, key=f"gpus.{number}", hint=error.hint
            ) from None
        gpus.append((gpu.name, geometry, layout, True))
    return gpus


def _schema(source: Path) -> object:
    """Return the schema that the file names; a TOML file can only be a fleet."""
    if source.suffix == ".toml":
        return FLEET_SCHEMA
    data = json_data(read_text(source), source=source)
    return data.get("schema") if isinstance(data, dict) else None
