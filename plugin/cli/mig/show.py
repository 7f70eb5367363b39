"""``berth mig show``: geometry of a model, or layouts and free room of a fleet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from berth.pilot.documents import read_json, to_json
from berth.pilot.errors import UsageError
from berth.pilot.units import format_bytes
from berth.plugin.report.terminal import columns
from berth.policies.mig import Geometry, GpuState, SliceProfile, diff, known_gpus, lookup
from berth.policies.mig.documents import FleetDocument, fleet_document, states_of
from berth.policies.mig.layout import enumerate_states


@click.command()
@click.option("--gpu", help="A GPU model, for example A100-40GB.")
@click.option(
    "--fleet",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A fleet file (berth.mig-fleet/1).",
)
@click.option(
    "--here", "this_machine", is_flag=True, help="The GPUs of this machine, read by NVML."
)
@click.option("--layouts", is_flag=True, help="With --gpu: list its maximal layouts, too.")
@click.option("--json", "json_", is_flag=True, help="Print JSON; of GPUs: a fleet file.")
def show(
    gpu: str | None, fleet: Path | None, this_machine: bool, layouts: bool, json_: bool
) -> None:
    """Show what a GPU model can be cut into, or how a fleet is cut and what room is left.

    Without an option, the GPU models that are known. Reads only.

    Example: berth mig show --gpu A100-40GB --layouts
    """
    if sum((gpu is not None, fleet is not None, this_machine)) > 1:
        raise UsageError("--gpu, --fleet and --here exclude each other")
    if layouts and gpu is None:
        raise UsageError("--layouts needs --gpu")
    if gpu is not None:
        geometry = lookup(gpu)
        click.echo(_geometry_json(geometry) if json_ else _geometry_text(geometry, layouts))
    elif fleet is not None:
        document = read_json(fleet, FleetDocument)
        states = states_of(document, source=fleet)
        click.echo(to_json(document).rstrip() if json_ else _fleet_text(states))
    elif this_machine:
        _show_here(json_)
    else:
        click.echo(json.dumps(known_gpus()) if json_ else _known_text())


def _show_here(json_: bool) -> None:
    from berth.plugin.mig.access import open_access  # noqa: PLC0415 - needs the driver's binding
    from berth.plugin.mig.settings import load  # noqa: PLC0415

    records = open_access(load()).inventory()
    states = tuple(s for r in records if (s := r.state(f"{r.index}")) is not None)
    if not states:
        names = ", ".join(f"{r.index} ({r.name}: MIG {'off' if r.capable else 'impossible'})"
                          for r in records)  # fmt: skip
        raise UsageError(f"no GPU of this machine can be cut now: {names}")
    if json_:
        click.echo(to_json(fleet_document(states)).rstrip())
        return
    click.echo(_fleet_text(states))
    for record in records:
        if record.geometry is None:
            continue
        try:
            table = lookup(record.name)
        except UsageError:
            click.echo(f"  {record.name} is not in Berth's table; NVML's word is taken")
            continue
        for difference in diff(table, record.geometry):
            click.echo(f"  {record.index}: {difference}")


def _known_text() -> str:
    rows = []
    for name in known_gpus():
        plain = lookup(name).plain()
        states = enumerate_states(plain)
        rows.append([
            name,
            " ".join(p.name for p in plain.profiles),
            str(len(states.layouts)),
            str(len(states.maximal)),
        ])  # fmt: skip
    header = ("GPU", "PROFILES (WITHOUT MEDIA VARIANTS)", "LAYOUTS", "MAXIMAL")
    return columns(header, rows, indent=0) + "\n\nMore on one: berth mig show --gpu A100-40GB"


def _geometry_text(geometry: Geometry, layouts: bool) -> str:
    rows = [
        [
            p.name,
            f"{p.compute_slices}/{geometry.compute_slices}",
            f"{p.memory_slices}/{geometry.memory_slices}",
            format_bytes(p.memory_bytes),
            str(p.multiprocessors or "-"),
            ",".join(map(str, p.placements)),
            str(p.max_instances),
            "-" if p.profile_id is None else str(p.profile_id),
            _media_text(p),
        ]
        for p in geometry.profiles
    ]
    header = ("PROFILE", "COMPUTE", "MEMORY", "USABLE", "SMS", "STARTS AT", "MOST", "ID", "MEDIA")
    plain = enumerate_states(geometry.plain())
    lines = [
        f"{geometry.gpu}: {len(plain.layouts)} layouts, {len(plain.maximal)} maximal "
        f"(with media variants {len(enumerate_states(geometry).layouts)})",
        columns(header, rows),
        f"  memory: {geometry.memory_basis}",
        f"  placements: {geometry.placements_basis}",
        f"  source: {geometry.source}",
        f"  also called: {', '.join(geometry.aliases) or '-'}",
    ]
    if layouts:
        lines.append("Maximal layouts (without media variants):")
        lines += [f"  {layout}" for layout in plain.maximal]
    return "\n".join(lines)


def _media_text(profile: SliceProfile) -> str:
    media = profile.media
    parts = [("NVDEC", media.nvdec), ("NVENC", media.nvenc), ("JPEG", media.jpeg),
             ("OFA", media.ofa)]  # fmt: skip
    return " ".join(f"{n} {name}" for name, n in parts if n) or "-"


def _geometry_json(geometry: Geometry) -> str:
    profiles: list[dict[str, Any]] = [
        {
            "name": p.name,
            "compute_slices": p.compute_slices,
            "memory_slices": p.memory_slices,
            "memory_bytes": p.memory_bytes,
            "placements": p.placements,
            "max_instances": p.max_instances,
            "profile_id": p.profile_id,
            "multiprocessors": p.multiprocessors,
        }
        for p in geometry.profiles
    ]
    return json.dumps(
        {
            "gpu": geometry.gpu,
            "compute_slices": geometry.compute_slices,
            "memory_slices": geometry.memory_slices,
            "aliases": geometry.aliases,
            "memory_basis": geometry.memory_basis,
            "source": geometry.source,
            "profiles": profiles,
        },
        indent=2,
    )


def _fleet_text(states: tuple[GpuState, ...]) -> str:
    rows = []
    for state in states:
        room = state.layout.additions(state.geometry.plain() if state.mig_enabled else _none(state))
        most = max((i for i in room), key=lambda i: _size(state, i.profile), default=None)
        rows.append([
            state.gpu,
            state.geometry.gpu,
            str(state.layout) if state.mig_enabled else "MIG off",
            " ".join(str(i) for i in state.busy.instances) or "-",
            str(most) if most else "-",
        ])  # fmt: skip
    return columns(("GPU", "MODEL", "LAYOUT", "BUSY", "LARGEST THAT FITS BESIDE"), rows, indent=0)


def _none(state: GpuState) -> Geometry:
    return state.geometry.restricted(())


def _size(state: GpuState, profile: str) -> tuple[int, int]:
    p = state.geometry.profile(profile)
    return (p.compute_slices, p.memory_slices)
