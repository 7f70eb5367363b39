"""``berth mig show``: shows a GPU model's MIG profiles, or a fleet's layouts and free space."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import click

from berth.pilot.documents import to_json
from berth.pilot.errors import UsageError
from berth.plugin.cli.options import FILE, answer, json_option
from berth.plugin.mig.inventory import Fleet
from berth.plugin.report.of_slices import (
    geometry_data,
    geometry_report,
    layouts_table,
    models_table,
)
from berth.plugin.report.parts import Part
from berth.policies.mig import diff, lookup
from berth.policies.mig.documents import fleet_document, read_fleet


@click.command()
@click.option("--gpu", help="A GPU model, for example A100-40GB.")
@click.option(
    "--fleet",
    "fleet_files",
    multiple=True,
    type=FILE,
    help="A fleet file (berth.mig-fleet/1; JSON or TOML); may be repeated.",
)
@click.option(
    "--here", "this_machine", is_flag=True, help="The GPUs of this machine, read by NVML."
)
@json_option
def show(
    gpu: str | None,
    fleet_files: tuple[Path, ...],
    this_machine: bool,
    json_: bool,
) -> None:
    """Show what a GPU model can be cut into, or how a fleet is cut and what room is left.

    Without an option, the GPU models that are known. With --json, --fleet and --here print a fleet
    file. Reads only.

    Example: berth mig show --gpu A100-40GB
    """
    if sum((gpu is not None, bool(fleet_files), this_machine)) > 1:
        raise UsageError("--gpu, --fleet and --here exclude each other")
    if gpu is not None:
        geometry = lookup(gpu)
        answer(lambda: geometry_report(geometry), lambda: geometry_data(geometry), json_=json_)
    elif fleet_files:
        document, states = read_fleet(fleet_files)
        answer(layouts_table(states), json.loads(to_json(document)), json_=json_)
    elif this_machine:
        _show_here(json_)
    else:
        models = models_table()
        more = "More on one: berth mig show --gpu A100-40GB"
        answer(Part("", tables=[models], notes=[more]), models.data, json_=json_)


def _show_here(json_: bool) -> None:
    from berth.plugin.mig.access import open_access  # noqa: PLC0415 - needs the driver's binding
    from berth.plugin.mig.journal import ApplyJournal  # noqa: PLC0415
    from berth.plugin.mig.settings import load  # noqa: PLC0415

    settings = load()
    records = open_access(settings).inventory()
    names = {f"{settings.node_name}/{record.index}": record for record in records}
    states = tuple(s for name, r in names.items() if (s := r.state(name)) is not None)
    left_out = ", ".join(f"{r.index} ({r.name}: MIG {'off' if r.capable else 'impossible'})"
                         for r in records if r.geometry is None)  # fmt: skip
    if not states:
        switch_on = (
            "nvidia-smi -i INDEX -mig 1 switches MIG on (root, an idle GPU); or write the "
            "fleet file by hand (docs/mig.md) and give `berth mig apply` --enable-mig --yes"
        )
        raise UsageError(
            f"no GPU of this machine can be cut now: {left_out}",
            hint=switch_on if any(r.capable for r in records) else None,
        )
    notes = [*_differences(records)]
    if left_out:
        notes.append(f"Left out: {left_out}.")
    if interruption := ApplyJournal(Path(settings.state_dir)).interruption():
        notes.append(f"{interruption}.")
    uuids = {name: record.uuid for name, record in names.items()}
    document = fleet_document(states, as_of_s=round(time.time()), uuids=uuids)
    answer(
        Part("", tables=[layouts_table(states)], notes=notes),
        json.loads(to_json(document)),
        json_=json_,
    )


def _differences(records: Fleet) -> Iterator[str]:
    """Yield a sentence for each GPU model of which the driver reports another MIG geometry than
    Berth's own table has."""
    for name, geometry in {r.name: r.geometry for r in records if r.geometry}.items():
        try:
            differences = diff(lookup(name), geometry)
        except UsageError:
            yield f"{name} is not in Berth's table; NVML's word is taken."
            continue
        if differences:
            yield f"{name}, of which NVML's word is taken: {'; '.join(map(str, differences))}."
