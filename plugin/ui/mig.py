"""The view *MIG*: how GPUs are cut, slice by slice, and what each model can be cut into."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Blueprint, render_template, request

from berth.pilot.documents import read_json
from berth.pilot.errors import BerthError
from berth.pilot.units import format_bytes
from berth.plugin.ui.context import context
from berth.plugin.ui.tables import Table
from berth.policies.mig import Geometry, GpuState, known_gpus, lookup
from berth.policies.mig.documents import FleetDocument, states_of
from berth.policies.mig.states import enumerate_states

view = Blueprint("mig", __name__)


@dataclass(frozen=True, slots=True)
class Slice:
    """One instance as a block of its GPU's memory slices."""

    name: str
    begin: int
    """From 1, as a grid counts."""
    width: int
    busy: bool


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, drawn."""

    name: str
    model: str
    width: int
    slices: list[Slice]
    off: bool


@view.route("/mig")
def mig() -> str:
    """The fleet of ``--fleet``, and the geometry of one model."""
    here = context()
    name = request.args.get("gpu", "")
    gpus: list[Gpu] = []
    table, problem = None, None
    try:
        if here.settings.fleet is not None:
            document = read_json(here.settings.fleet, FleetDocument)
            gpus = [_gpu(state) for state in states_of(document, source=here.settings.fleet)]
        if name:
            table = _table(lookup(name))
    except BerthError as error:
        problem = error
    return render_template(
        "mig.html", gpus=gpus, table=table, models=known_gpus(), asked=name, problem=problem,
        fleet=here.settings.fleet,
    )  # fmt: skip


def _gpu(state: GpuState) -> Gpu:
    geometry, busy = state.geometry, set(state.busy.instances)
    slices = [
        Slice(
            instance.profile,
            instance.start + 1,
            geometry.profile(instance.profile).memory_slices,
            instance in busy,
        )
        for instance in state.layout.instances
    ]
    width = max(p.memory_slices for p in geometry.profiles)
    return Gpu(state.gpu, geometry.gpu, width, slices, not state.mig_enabled)


def _table(geometry: Geometry) -> Table:
    plain = enumerate_states(geometry.plain())
    rows = [
        (
            p.name,
            f"{p.compute_slices} of {geometry.compute_slices}",
            format_bytes(p.memory_bytes),
            ", ".join(map(str, p.placements)),
            str(p.max_instances),
        )
        for p in geometry.profiles
    ]
    return Table(
        f"{geometry.gpu}: {len(plain.layouts)} layouts, {len(plain.maximal)} of them full",
        ("Profile", "Compute slices", "Memory", "Starts at", "At most"),
        rows,
    )
