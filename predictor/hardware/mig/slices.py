"""MIG geometry of the catalogue's GPUs (``table.json``), and the platforms of their slices.

Several devices may share a geometry, such as the 40 GB A100 in its PCIe and SXM forms. Where NVML
differs at run time, NVML is right. A slice's platform is computed from the whole GPU's platform
and the geometry.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from berth.pilot.errors import UsageError
from berth.pilot.platform import MemoryLevel, Platform, PlatformKind, Signature, SignatureSource
from berth.predictor.hardware.catalogue import candidates, devices, simplified
from berth.predictor.hardware.mig.geometry import Geometry, Media, SliceProfile

TABLE = Path(__file__).with_name("table.json")
MIB = 2**20


@cache
def geometries() -> Mapping[str, Geometry]:
    """Return the MIG geometries of ``table.json`` by GPU name, in the table's order."""
    data = json.loads(TABLE.read_text(encoding="utf-8"))
    described = (_geometry(g, data["shapes"][g["shape"]], data["source"]) for g in data["gpus"])
    return {geometry.gpu: geometry for geometry in described}


def _geometry(entry: dict[str, Any], shape: dict[str, Any], source: str) -> Geometry:
    sharing = [device for device in devices().values() if device.mig == entry["name"]]
    names = dict.fromkeys(n for d in sharing for n in (d.name, *d.aliases) if n != entry["name"])
    geometry = Geometry(
        gpu=entry["name"],
        compute_slices=shape["compute_slices"],
        memory_slices=shape["memory_slices"],
        profiles=tuple(_profile(entry, row) for row in shape["profiles"]),
        aliases=tuple(names),
        device_filters=tuple(entry.get("device_filters", ())),
        source=source,
        memory_basis=entry["memory_basis"],
        placements_basis=shape["placements_basis"],
    )
    geometry.check()
    return geometry


def _profile(entry: dict[str, Any], row: dict[str, Any]) -> SliceProfile:
    size = str(row["memory"])
    label = f"{row['compute']}g" + ("x2" if row.get("double") else "")
    parts = f"{row['compute']}g.", f"gb{row.get('suffix', '')}"
    other_gb = entry.get("also_gb", {}).get(size)
    return SliceProfile(
        name=f"{entry['nominal_gb'][size]}".join(parts),
        compute_slices=row["compute"],
        memory_slices=row["memory"],
        memory_bytes=entry["memory_mib"][size] * MIB,
        placements=tuple(row["placements"]),
        max_instances=row["max"],
        profile_id=row.get("id"),
        media=Media(**row["media"]),
        multiprocessors=entry.get("multiprocessors", {}).get(label),
        other_name=None if other_gb is None else f"{other_gb}".join(parts),
    )


def known_gpus() -> tuple[str, ...]:
    """Return the names of the GPUs with a known MIG geometry, in the table's order."""
    return tuple(geometries())


def lookup(name: str) -> Geometry:
    """Return the MIG geometry of a GPU, by the geometry's name or any name of a device.

    Raises UsageError that lists similar names, or the candidates of an ambiguous name.
    """
    matching = _matching(name)
    if len(matching) == 1:
        return geometries()[matching.pop()]
    if matching:
        raise UsageError(
            f"the GPU {name!r} may be several with different MIG slices",
            hint=f"one of {', '.join(sorted(matching))}",
        )
    spellings = {simplified(a): g.gpu for g in geometries().values() for a in (g.gpu, *g.aliases)}
    near = difflib.get_close_matches(simplified(name), spellings, n=3, cutoff=0.5)
    names = dict.fromkeys(spellings[n] for n in near) or known_gpus()
    raise UsageError(
        f"no MIG geometry is known for the GPU {name!r}",
        hint=f"{'nearest' if near else 'known'}: {', '.join(names)}",
    )


def _matching(name: str) -> set[str]:
    own = {gpu for gpu in geometries() if simplified(gpu) == simplified(name)}
    return own or {device.mig for device in candidates(name) if device.mig}


def geometry_of(platform: Platform) -> Geometry | None:
    """Return the MIG geometry of a GPU platform, or of a slice platform's GPU; None if unknown."""
    for name in (platform.accelerator, platform.parent or platform.name):
        matching = set() if name is None else _matching(name)
        if len(matching) == 1:
            return geometries()[matching.pop()]
    return None


MARK = "-mig-"
"""Separator of the GPU's name and the profile's name in the name of a slice platform."""


def slice_of(platform: Platform) -> tuple[Geometry, SliceProfile] | None:
    """Return the geometry and profile of a slice platform; None for others and unknown profiles."""
    if platform.kind is not PlatformKind.MIG or platform.parent is None:
        return None
    geometry = geometry_of(platform)
    if geometry is None:
        return None
    profile = geometry.named(platform.name.rpartition(MARK)[2])
    return None if profile is None else (geometry, profile)


def part_of(platform: Platform, known: Mapping[str, Platform]) -> float:
    """Return the fraction of its GPU that a platform occupies, 1 for whole GPUs and CPUs.

    It is the larger of the fractions of compute and memory.
    """
    parent_and_profile = slice_of(platform)
    if parent_and_profile is not None:
        return part_of_gpu(*parent_and_profile)
    whole = known.get(platform.parent or "")
    if whole is None:
        return 1.0
    shares = (platform.cores / whole.cores, platform.memory_bytes / whole.memory_bytes)
    return min(1.0, max(shares))


def part_of_gpu(geometry: Geometry, profile: SliceProfile) -> float:
    """Return the fraction of a GPU that a MIG profile occupies.

    It is the larger of the fractions of compute slices and memory slices.
    """
    compute = profile.compute_slices / geometry.compute_slices
    return min(1.0, max(compute, profile.memory_slices / geometry.memory_slices))


def slice_platform(whole: Platform, geometry: Geometry, profile: SliceProfile) -> Platform:
    """Return the platform of a MIG slice, computed from the whole GPU's platform.

    Compute rates scale with multiprocessors, memory rates with memory slices.
    """
    compute = profile.compute_slices / geometry.compute_slices
    cores = profile.multiprocessors or max(1, round(whole.cores * compute))
    cores = min(cores, whole.cores)
    busy, shared = cores / whole.cores, profile.memory_slices / geometry.memory_slices
    rates = whole.signature
    scattered = rates.scattered_atomics_per_s
    return Platform(
        schema="berth.platform/1",
        name=f"{whole.name}{MARK}{profile.name}",
        kind=PlatformKind.MIG,
        description=f"MIG slice {profile.name} of {whole.name}",
        architecture=whole.architecture,
        targets=whole.targets,
        instruction_sets=whole.instruction_sets,
        cores=cores,
        memory_bytes=float(profile.memory_bytes),
        price_per_hour=None
        if whole.price_per_hour is None
        else whole.price_per_hour * part_of_gpu(geometry, profile),
        power_w=None if whole.power_w is None else whole.power_w * shared,
        parent=whole.name,
        accelerator=whole.accelerator,
        signature=Signature(
            source=SignatureSource.SPEC,
            measured_on=f"the slice's share of {whole.name}: {cores} of {whole.cores} "
            f"multiprocessors, {profile.memory_slices} of {geometry.memory_slices} memory slices",
            flops_f64_per_s=rates.flops_f64_per_s * busy,
            flops_f32_per_s=rates.flops_f32_per_s * busy,
            memory=tuple(_share(level, busy, shared, profile) for level in rates.memory),
            atomics_per_s=rates.atomics_per_s,
            scattered_atomics_per_s=scattered and scattered * busy,
            launch_overhead_s=rates.launch_overhead_s,
        ),
    )


def _share(level: MemoryLevel, busy: float, shared: float, profile: SliceProfile) -> MemoryLevel:
    part = busy if level.level == "l1" else shared
    capacity = profile.memory_bytes if level.level == "dram" else level.capacity_bytes * part
    return MemoryLevel(
        level=level.level,
        capacity_bytes=float(capacity),
        total_bytes_per_s=level.total_bytes_per_s * part,
        latency_s=level.latency_s,
    )


def derived(name: str, known: Mapping[str, Platform]) -> Platform | None:
    """Return the slice platform with a name like ``h200-141gb-mig-1g.18gb``.

    None where the GPU is not in ``known`` or has no such profile.
    """
    gpu, mark, profile = name.partition(MARK)
    whole = known.get(gpu)
    if not mark or whole is None or whole.kind is not PlatformKind.GPU:
        return None
    geometry = geometry_of(whole)
    named = None if geometry is None else geometry.named(profile)
    if geometry is None or named is None:
        return None
    return slice_platform(whole, geometry, named)


def relatives(platforms: Iterable[Platform], known: Mapping[str, Platform]) -> Iterator[Platform]:
    """Yield the whole GPUs of the slice platforms, each with all plain slices of that GPU."""
    parents = (p.parent for p in platforms if p.kind is PlatformKind.MIG)
    for name in dict.fromkeys(parents):
        if (whole := known.get(name or "")) is not None:
            yield whole
            yield from every_slice({whole.name: whole})


def every_slice(known: Mapping[str, Platform]) -> Iterator[Platform]:
    """Yield the platforms of all plain MIG slices of all known GPUs that support MIG."""
    for whole in known.values():
        if whole.kind is PlatformKind.GPU and (geometry := geometry_of(whole)) is not None:
            plain = (profile for profile in geometry.profiles if profile.is_plain)
            yield from (slice_platform(whole, geometry, profile) for profile in plain)
