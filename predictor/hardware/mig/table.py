"""MIG geometry of the GPUs of the catalogue (``table.json``). At run time NVML has the last word.

A geometry is shared by the devices that name it: one of 40 GB is that of two A100s.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.predictor.hardware.catalogue import candidates, devices, simplified
from berth.predictor.hardware.mig.geometry import Geometry, Media, SliceProfile

TABLE = Path(__file__).with_name("table.json")
MIB = 2**20


@cache
def geometries() -> Mapping[str, Geometry]:
    """By name, in the table's order."""
    data = json.loads(TABLE.read_text(encoding="utf-8"))
    made = (_geometry(g, data["shapes"][g["shape"]], data["source"]) for g in data["gpus"])
    return {geometry.gpu: geometry for geometry in made}


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
    return SliceProfile(
        name=f"{row['compute']}g.{entry['nominal_gb'][size]}gb{row.get('suffix', '')}",
        compute_slices=row["compute"],
        memory_slices=row["memory"],
        memory_bytes=entry["memory_mib"][size] * MIB,
        placements=tuple(row["placements"]),
        max_instances=row["max"],
        profile_id=row.get("id"),
        media=Media(**row["media"]),
        multiprocessors=entry.get("multiprocessors", {}).get(label),
    )


def known_gpus() -> tuple[str, ...]:
    """The names of the geometries, in the table's order."""
    return tuple(geometries())


def lookup(name: str) -> Geometry:
    """The geometry of a name of its own or of any device that has it.

    Raises UsageError naming the nearest, or what the name may be.
    """
    wanted = simplified(name)
    spellings = {simplified(own): own for own in geometries()}
    found = {d.mig for d in candidates(name) if d.mig}
    if wanted in spellings:
        found = {spellings[wanted]}
    if len(found) == 1:
        return geometries()[found.pop()]
    if found:
        raise UsageError(
            f"the GPU {name!r} may be several with different MIG slices",
            hint=f"one of {', '.join(sorted(found))}",
        )
    spellings |= {simplified(a): g.gpu for g in geometries().values() for a in g.aliases}
    near = difflib.get_close_matches(wanted, spellings, n=3, cutoff=0.5)
    names = dict.fromkeys(spellings[n] for n in near) or known_gpus()
    raise UsageError(
        f"no MIG geometry is known for the GPU {name!r}",
        hint=f"{'nearest' if near else 'known'}: {', '.join(names)}",
    )


def geometry_of(platform: Platform) -> Geometry | None:
    """What a platform's GPU, or the GPU that its slice is of, can be cut into; None: not known."""
    for name in (platform.accelerator, platform.parent or platform.name):
        if name is not None:
            with suppress(UsageError):
                return lookup(name)
    return None
