"""MIG slices in the site file: one table becomes a candidate for each profile of the GPU model.

Which of them exist at a moment is the scheduler's to say (``CandidateState``), so that a node
that is cut anew needs no change of the site file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.platform import MemoryLevel, Platform, PlatformKind, Signature, SignatureSource
from berth.plugin.site.document import CandidateTable, SlicesTable
from berth.policies.mig import Geometry, SliceProfile, lookup

MARK = "-mig-"
"""Between the GPU's and the profile's name in the name of a slice's platform."""
PLACE = "{profile}"
_PADDING = re.compile(r"gpu:off\d+")


def is_padding(kind: str) -> bool:
    """True for ``gpu:off1``: what ``berth mig apply`` fills a node up with, for no job to use."""
    return _PADDING.fullmatch(kind) is not None


def slice_of(platform: Platform) -> tuple[Geometry, SliceProfile] | None:
    """The GPU model and the profile that a slice's platform is of; None: not known to be one."""
    if platform.kind is not PlatformKind.MIG or platform.parent is None:
        return None
    try:
        geometry = lookup(platform.parent)
    except UsageError:
        return None
    found = geometry.by_name.get(platform.name.rpartition(MARK)[2])
    return None if found is None else (geometry, found)


def part_of(platform: Platform, known: Mapping[str, Platform]) -> float:
    """The part of its GPU that others cannot have: the larger of compute and memory."""
    found = slice_of(platform)
    if found is not None:
        return _part(*found)
    whole = known.get(platform.parent or "")
    if whole is None:
        return 1.0
    shares = (platform.cores / whole.cores, platform.memory_bytes / whole.memory_bytes)
    return min(1.0, max(shares))


def slice_platform(whole: Platform, geometry: Geometry, profile: SliceProfile) -> Platform:
    """The slice's share of the whole GPU's rates: multiprocessors, memory slices."""
    compute = profile.compute_slices / geometry.compute_slices
    cores = profile.multiprocessors or max(1, round(whole.cores * compute))
    cores = min(cores, whole.cores)
    busy, shared = cores / whole.cores, profile.memory_slices / geometry.memory_slices
    rates = whole.signature
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
        else whole.price_per_hour * _part(geometry, profile),
        power_w=None if whole.power_w is None else whole.power_w * shared,
        parent=whole.name,
        signature=Signature(
            source=SignatureSource.SPEC,
            measured_on=f"the slice's share of {whole.name}: {cores} of {whole.cores} "
            f"multiprocessors, {profile.memory_slices} of {geometry.memory_slices} memory slices",
            flops_f64_per_s=rates.flops_f64_per_s * busy,
            flops_f32_per_s=rates.flops_f32_per_s * busy,
            memory=tuple(_share(level, busy, shared, profile) for level in rates.memory),
            atomics_per_s=rates.atomics_per_s,
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
    """The platform that a name like ``h200-141gb-mig-1g.18gb`` stands for; None: there is none."""
    gpu, mark, profile = name.partition(MARK)
    whole = known.get(gpu)
    if not mark or whole is None or whole.kind is not PlatformKind.GPU:
        return None
    try:
        geometry = lookup(gpu)
    except UsageError:
        return None
    found = geometry.by_name.get(profile)
    return None if found is None else slice_platform(whole, geometry, found)


def every_slice(known: Mapping[str, Platform]) -> Iterator[Platform]:
    """The plain slices of every known GPU that has any."""
    for whole in known.values():
        if whole.kind is PlatformKind.GPU:
            try:
                geometry = lookup(whole.name)
            except UsageError:
                continue
            for profile in geometry.profiles:
                if profile.is_plain:
                    yield slice_platform(whole, geometry, profile)


def expanded(
    table: CandidateTable, whole: Platform, key: str, path: Path, *, typed: bool
) -> list[tuple[CandidateTable, Platform]]:
    """One table for each slice of a table with ``slices``, and the platform of each.

    ``typed``: the scheduler tells slices apart by type (Slurm), not only by queue (Flux).
    Raises DocumentError where the platform is no GPU that can be cut, or lacks a profile.
    """
    asked = table.slices
    if asked is None:
        return [(table, whole)]
    try:
        if whole.kind is not PlatformKind.GPU:
            raise UsageError(f"{whole.name} is not a whole GPU")
        geometry = lookup(asked.gpu or whole.name)
        names = asked.profiles or tuple(p.name for p in geometry.profiles if p.is_plain)
        profiles = [geometry.profile(name) for name in names]
    except UsageError as error:
        raise DocumentError(path, error.message, key=f"{key}.slices", hint=error.hint) from None
    if table.gres not in (None, "gpu"):
        raise DocumentError(
            path, "is made from slices.type_pattern; leave it out", key=f"{key}.gres"
        )
    return [
        (_of(table, asked, p, _part(geometry, p), typed=typed), slice_platform(whole, geometry, p))
        for p in profiles
    ]


def _part(geometry: Geometry, profile: SliceProfile) -> float:
    compute = profile.compute_slices / geometry.compute_slices
    return min(1.0, max(compute, profile.memory_slices / geometry.memory_slices))


def _of(
    table: CandidateTable, asked: SlicesTable, profile: SliceProfile, part: float, *, typed: bool
) -> CandidateTable:
    name = profile.name
    price = table.price_per_gpu_hour
    return table.model_copy(
        update={
            "name": f"{table.name}-{name}",
            "platform": f"{table.platform}{MARK}{name}",
            "partition": table.partition.replace(PLACE, name),
            "constraint": table.constraint and table.constraint.replace(PLACE, name),
            "properties": table.properties
            and tuple(text.replace(PLACE, name) for text in table.properties),
            "gres": f"gpu:{asked.type_pattern.replace(PLACE, name)}" if typed else None,
            "gpus_per_node": (table.gpus_per_node or 1) * profile.max_instances,
            "price_per_gpu_hour": None if price is None else price * part,
            "slices": None,
        }
    )
