"""``berth mig show``: shows a GPU model's MIG profiles, or a fleet's layouts and free space."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from berth.pilot.documents import read_json_or_toml, to_json
from berth.pilot.errors import UsageError
from berth.plugin.cli.options import FILE, answer, table_json_option
from berth.plugin.mig.inventory import Fleet
from berth.plugin.report.of_slices import (
    geometry_data,
    geometry_report,
    layouts_table,
    models_table,
)
from berth.plugin.report.parts import Part
from berth.policies.mig import diff, lookup
from berth.policies.mig.documents import FleetDocument, fleet_document, states_of


@click.command()
@click.option("--gpu", help="A GPU model, for example A100-40GB.")
@click.option("--fleet", type=FILE, help="A fleet file (berth.mig-fleet/1; JSON or TOML).")
@click.option(
    "--here", "this_machine", is_flag=True, help="The GPUs of this machine, read by NVML."
)
@click.option("--layouts", is_flag=True, help="With --gpu: list its maximal layouts, too.")
@table_json_option
def show(
    gpu: str | None, fleet: Path | None, this_machine: bool, layouts: bool, json_: bool
) -> None:
    """Show what a GPU model can be cut into, or how a fleet is cut and what room is left.

    Without an option, the GPU models that are known. With --json, --fleet and --here print a fleet
    file. Reads only.

    Example: berth mig show --gpu A100-40GB --layouts
    """
    if sum((gpu is not None, fleet is not None, this_machine)) > 1:
        raise UsageError("--gpu, --fleet and --here exclude each other")
    if layouts and gpu is None:
        raise UsageError("--layouts needs --gpu")
    if gpu is not None:
        geometry = lookup(gpu)
        answer(
            lambda: geometry_report(geometry, with_layouts=layouts),
            lambda: geometry_data(geometry),
            json_=json_,
        )
    elif fleet is not None:
        document = read_json_or_toml(fleet, FleetDocument)
        states = states_of(document, source=fleet)
        answer(layouts_table(states), json.loads(to_json(document)), json_=json_)
    elif this_machine:
        _show_here(json_)
    else:
        models = models_table()
        more = "More on one: berth mig show --gpu A100-40GB"
        answer(Part("", tables=[models], notes=[more]), models.data, json_=json_)


def _show_here(json_: bool) -> None:
    from berth.plugin.mig.access import open_access  # noqa: PLC0415 - needs the driver's binding
    from berth.plugin.mig.settings import load  # noqa: PLC0415

    records = open_access(load()).inventory()
    states = tuple(s for r in records if (s := r.state(f"{r.index}")) is not None)
    if not states:
        names = ", ".join(f"{r.index} ({r.name}: MIG {'off' if r.capable else 'impossible'})"
                          for r in records)  # fmt: skip
        raise UsageError(
            f"no GPU of this machine can be cut now: {names}",
            hint="nvidia-smi -i INDEX -mig 1 switches MIG on (root, an idle GPU); or write the "
            "fleet file by hand (docs/mig.md) and give `berth mig apply` --enable-mig",
        )
    answer(
        Part("", tables=[layouts_table(states)], notes=list(_differences(records))),
        json.loads(to_json(fleet_document(states))),
        json_=json_,
    )


def _differences(records: Fleet) -> Iterator[str]:
    """Yield sentences on differences between the MIG geometry that the driver reports and
    Berth's own table."""
    for record in records:
        if record.geometry is None:
            continue
        try:
            table = lookup(record.name)
        except UsageError:
            yield f"{record.name} is not in Berth's table; NVML's word is taken"
            continue
        yield from (f"{record.index}: {text}" for text in diff(table, record.geometry))
