"""The table of MIG-capable GPUs (``gpus.toml``), and finding a model by the name people use."""

from __future__ import annotations

import difflib
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from berth.pilot.errors import UsageError
from berth.predictor.hardware.mig.geometry import Geometry, Media, SliceProfile

MIB = 2**20


@cache
def _table() -> dict[str, Geometry]:
    text = files("berth.predictor.hardware.mig").joinpath("gpus.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    made = [
        _geometry(entry, data["shape"][entry["shape"]], data["source"]) for entry in data["gpu"]
    ]
    return {geometry.gpu: geometry for geometry in made}


def _geometry(entry: dict[str, Any], shape: dict[str, Any], source: str) -> Geometry:
    profiles = []
    for row in shape["profile"]:
        nominal_gb = entry["nominal_gb"][str(row["memory"])]
        label = f"{row['compute']}g" + ("" if not row.get("double") else "x2")
        profiles.append(
            SliceProfile(
                name=f"{row['compute']}g.{nominal_gb}gb{row.get('suffix', '')}",
                compute_slices=row["compute"],
                memory_slices=row["memory"],
                memory_bytes=entry["memory_mib"][str(row["memory"])] * MIB,
                placements=tuple(row["placements"]),
                max_instances=row["max"],
                profile_id=row.get("id"),
                media=Media(**row.get("media", {})),
                multiprocessors=entry.get("multiprocessors", {}).get(label),
            )
        )
    geometry = Geometry(
        gpu=entry["name"],
        compute_slices=shape["compute_slices"],
        memory_slices=shape["memory_slices"],
        profiles=tuple(profiles),
        aliases=tuple(entry.get("aliases", ())),
        device_filters=tuple(entry.get("device_filters", ())),
        source=source,
        memory_basis=entry["memory_basis"],
        placements_basis=shape["placements_basis"],
    )
    geometry.check()
    return geometry


def known_gpus() -> tuple[str, ...]:
    """The models of the table, in its order."""
    return tuple(_table())


def lookup(name: str) -> Geometry:
    """The geometry of a GPU model by its name or an alias, in any case, with or without NVIDIA.

    Raises UsageError naming the nearest models that are known.
    """
    wanted = _simplified(name)
    spellings = {
        _simplified(spelling): geometry
        for geometry in _table().values()
        for spelling in (geometry.gpu, *geometry.aliases)
    }
    if wanted in spellings:
        return spellings[wanted]
    near = difflib.get_close_matches(wanted, spellings, n=3, cutoff=0.5)
    names = dict.fromkeys(spellings[n].gpu for n in near) or known_gpus()
    raise UsageError(
        f"no MIG geometry is known for the GPU {name!r}",
        hint=f"{'nearest' if near else 'known'}: {', '.join(names)}",
    )


def _simplified(name: str) -> str:
    words = name.lower().replace("_", "-").replace(" ", "-").removeprefix("nvidia-")
    return "".join(c for c in words if c.isalnum())
