"""Reports MIG slices: the layouts of each GPU model, the fleet's layouts, the slice for a
workload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from berth.pilot.units import format_bytes, format_count, format_seconds
from berth.plugin.report.parts import Column, Part, Report, Table, data_of, middle, plain
from berth.policies.mig import Geometry, GpuState, SliceProfile, known_gpus, lookup
from berth.policies.mig.layout import enumerate_states
from berth.policies.mig.recommend import Recommendation, SliceChoice
from berth.predictor.core.prediction import Interval
from berth.predictor.hardware.catalogue import candidates


class _MigProfile(NamedTuple):
    """A MIG profile of a GPU model."""

    geometry: Geometry
    profile: SliceProfile


class _MigModel(NamedTuple):
    """A GPU model, with the numbers of its possible layouts, media variants not counted."""

    geometry: Geometry
    layouts: int
    maximal: int


def _media(row: _MigProfile) -> str | None:
    media = row.profile.media
    counts = {"NVDEC": media.nvdec, "NVENC": media.nvenc, "JPEG": media.jpeg, "OFA": media.ofa}
    return " ".join(f"{count} {name}" for name, count in counts.items() if count) or None


PROFILES: tuple[Column[_MigProfile], ...] = (
    Column("Profile", "name", lambda row: row.profile.name),
    Column("Compute", "compute_slices", lambda row: row.profile.compute_slices,
           words=lambda row: f"{row.profile.compute_slices}/{row.geometry.compute_slices}",
           kind=float),
    Column("Memory", "memory_slices", lambda row: row.profile.memory_slices,
           words=lambda row: f"{row.profile.memory_slices}/{row.geometry.memory_slices}",
           kind=float),
    Column("Usable", "memory_bytes", lambda row: row.profile.memory_bytes, format_bytes, "bytes"),
    Column("SMs", "multiprocessors", lambda row: row.profile.multiprocessors, kind=float),
    Column("Starts at", "placements", lambda row: list(row.profile.placements),
           lambda placements: ",".join(map(str, placements)), kind=list[float]),
    Column("At most", "max_instances", lambda row: row.profile.max_instances, kind=float),
    Column("ID", "profile_id", lambda row: row.profile.profile_id, kind=float),
    Column("Media", "media", _media),
)  # fmt: skip
"""The columns of a GPU model's MIG profiles."""

MODELS: tuple[Column[_MigModel], ...] = (
    Column("GPU", "gpu", lambda row: row.geometry.gpu),
    Column("Profiles (without media variants)", "profiles",
           lambda row: [profile.name for profile in row.geometry.plain().profiles], " ".join,
           kind=list[str]),
    Column("Layouts", "layouts", lambda row: row.layouts, kind=float),
    Column("Maximal", "maximal", lambda row: row.maximal, kind=float),
)  # fmt: skip
"""The columns of GPU models that support MIG."""


def _largest_beside(state: GpuState) -> str | None:
    """Return the largest instance that still fits on a GPU beside its instances; None: none
    fits."""
    geometry = state.geometry.plain() if state.mig_enabled else state.geometry.restricted(())

    def size(name: str) -> tuple[int, int]:
        profile = state.geometry.profile(name)
        return profile.compute_slices, profile.memory_slices

    fitting = state.layout.additions(geometry)
    largest = max(fitting, key=lambda instance: size(instance.profile), default=None)
    return None if largest is None else str(largest)


LAYOUTS: tuple[Column[GpuState], ...] = (
    Column("GPU", "gpu", lambda state: state.gpu),
    Column("Model", "model", lambda state: state.geometry.gpu),
    Column("Layout", "layout", lambda state: str(state.layout) if state.mig_enabled else None,
           missing="MIG off"),
    Column("Busy", "busy", lambda state: " ".join(map(str, state.busy.instances))),
    Column("Largest that fits beside", "largest_beside", _largest_beside),
)  # fmt: skip
"""The columns of the MIG layouts of a fleet's GPUs."""


def models_table() -> Table[_MigModel]:
    """Return a table with a line for each known GPU model that supports MIG."""
    geometries = [lookup(name) for name in known_gpus()]
    states = [enumerate_states(geometry.plain()) for geometry in geometries]
    rows = [
        _MigModel(geometry, len(state.layouts), len(state.maximal))
        for geometry, state in zip(geometries, states, strict=True)
    ]
    return Table("GPU models that can be cut", MODELS, rows)


def profiles_table(geometry: Geometry) -> Table[_MigProfile]:
    """Return a table with a line for each MIG profile of a GPU model."""
    states = enumerate_states(geometry.plain())
    caption = f"{geometry.gpu}: {len(states.layouts)} layouts, {len(states.maximal)} maximal"
    return Table(caption, PROFILES, [_MigProfile(geometry, p) for p in geometry.profiles])


def layouts_table(states: Sequence[GpuState]) -> Table[GpuState]:
    """Return a table of the GPUs' present MIG layouts, a line for each GPU."""
    return Table("How GPUs are cut", LAYOUTS, states)


def geometry_report(geometry: Geometry) -> Report:
    """Return the report of a GPU model's MIG profiles and of all its maximal layouts."""
    table = profiles_table(geometry)
    media = f"with media variants {len(enumerate_states(geometry).layouts)}"
    notes = [
        f"memory: {geometry.memory_basis}",
        f"placements: {geometry.placements_basis}",
        f"source: {geometry.source}",
        f"also called: {', '.join(filter(_is_of_one_geometry, geometry.aliases)) or '-'}",
    ]
    if other_names := [p.other_name for p in geometry.profiles if p.other_name]:
        notes.append(f"profiles in other versions of the driver: {', '.join(other_names)}")
    layouts = "\n".join(map(str, enumerate_states(geometry.plain()).maximal))
    parts = [
        Part("", tables=[table], notes=notes),
        Part("Maximal layouts (without media variants)", verbatim=layouts),
    ]
    return Report(f"{table.caption} ({media})", "", parts)


def _is_of_one_geometry(gpu: str) -> bool:
    """Return whether a GPU's name, such as ``H100``, stands for GPUs with the same MIG slices."""
    return len({device.mig for device in candidates(gpu) if device.mig}) == 1


def geometry_data(geometry: Geometry) -> dict[str, Any]:
    """Return a GPU model's MIG profiles, for JSON."""
    return {
        "gpu": geometry.gpu,
        "compute_slices": geometry.compute_slices,
        "memory_slices": geometry.memory_slices,
        "aliases": geometry.aliases,
        "memory_basis": geometry.memory_basis,
        "source": geometry.source,
        "profiles": profiles_table(geometry).data(),
    }


def choice_columns(unit: str, units: float | None) -> tuple[Column[SliceChoice], ...]:
    """Make the columns of a workload's predictions by slice; ``unit``: the unit of work that a time
    is for, such as ``step``; ``units``: how many a job does, None: unknown."""

    def job_s(choice: SliceChoice) -> Interval | None:
        return None if units is None else choice.prediction.time_s.scaled(units)

    whole_job = () if unit == "job" else (middle("A job", "job_s", job_s, format_seconds),)
    return (
        Column("Slice", "profile", lambda choice: choice.profile.name),
        Column("Memory", "memory_bytes", lambda choice: choice.profile.memory_bytes, format_bytes,
               "bytes"),
        Column("Slow-down", "slowdown", lambda choice: choice.prediction.slowdown,
               lambda slowdown: f"{slowdown.mid:.2f} ({slowdown.low:.2f} to {slowdown.high:.2f})",
               ends=("low", "mid", "high")),
        middle(f"A {unit}", "time_s", lambda choice: choice.prediction.time_s, format_seconds),
        *whole_job,
        middle("Items/s", "throughput_per_s", lambda choice: choice.throughput_per_s,
               format_count, unit="1/s"),
        Column("Per GPU", "throughput_per_gpu_s",
               lambda choice: choice.throughput_per_s.mid / choice.part, format_count, "1/s"),
        middle("J", "energy_j", lambda choice: choice.prediction.energy_j, "{:.3g}".format,
               unit="J"),
        middle("Price", "price", lambda choice: choice.price, "{:.3g}".format, unit=""),
        Column("Bound", "bound", lambda choice: choice.prediction.bound.value),
        Column("Basis", "basis", lambda choice: choice.prediction.basis.value),
        Column("Refused", "refused", lambda choice: choice.refused),
    )  # fmt: skip


def recommendation_part(recommendation: Recommendation) -> Part:
    """Return the report section with a workload's predictions on each slice, the smallest slice
    that it fits in, and the best slice."""
    gpu, choices = recommendation.memory.gpu_bytes, recommendation.choices
    need = "not known" if gpu is None else f"up to {format_bytes(gpu.high)}"
    headline = (
        f"{recommendation.workload} on slices of {recommendation.gpu}; GPU memory {need}; "
        f"predicted by {choices[0].prediction.method}; slow-downs with their 90 % interval"
    )
    possible = (c.prediction.abstained for c in choices if c.refused is None)
    abstained = next((reason for reason in possible if reason), None)
    notes = [f"Not sure: {abstained}."] if abstained else []
    if choices[0].prediction.method == "batches":
        notes.append("One more point, the same batch in 2 processes, would halve the error.")
    if recommendation.smallest is not None:
        notes.append(f"Smallest: {recommendation.smallest.profile.name}.")
    best = recommendation.best
    notes.append(f"Best: {best.profile.name if best else 'none'} ({recommendation.reason}).")
    columns = choice_columns(recommendation.unit, recommendation.units)
    if recommendation.units is None:
        columns = tuple(column for column in columns if column.key != "job_s")
    table = Table("Slices", columns, choices)
    return Part("", [headline], tables=[table], notes=notes)


def recommendation_data(recommendation: Recommendation) -> dict[str, Any]:
    """Return the recommended slice for a workload, and the predictions on each slice, for JSON."""
    return {
        "workload": recommendation.workload,
        "gpu": recommendation.gpu,
        "unit": recommendation.unit,
        "units": recommendation.units,
        "aim": recommendation.terms.aim.value,
        "smallest": recommendation.smallest.profile.name if recommendation.smallest else None,
        "best": recommendation.best.profile.name if recommendation.best else None,
        "reason": recommendation.reason,
        "gpu_memory_bytes": plain(recommendation.memory.gpu_bytes),
        "slices": [_choice_data(recommendation, choice) for choice in recommendation.choices],
    }


def _choice_data(recommendation: Recommendation, choice: SliceChoice) -> dict[str, Any]:
    prediction = choice.prediction
    return {
        **data_of(choice_columns(recommendation.unit, recommendation.units), choice),
        "part_of_gpu": choice.part,
        "need_bytes": plain(prediction.memory.gpu_bytes),
        "fits": choice.fits,
        "launch_share": prediction.launch_share,
        "method": prediction.method,
        "abstained": prediction.abstained,
    }
