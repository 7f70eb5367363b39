"""MIG slices by the type names that Slurm's AutoDetect and administrators give them.

``nvidia_a100_1g.10gb``, ``a100_3g.39gb``, ``nvidia_h100_80gb_hbm3_1g.10gb+me``, ``1g.5gb``: the GPU
model, where the name says it, decides what can be meant. Slurm rounds a slice's memory by rules of
its own, so that a size is resolved to the nearest profile of that model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from berth.predictor.hardware.catalogue import candidates
from berth.predictor.hardware.device import Device
from berth.predictor.hardware.mig.geometry import Geometry, SliceProfile
from berth.predictor.hardware.mig.table import geometries

_GIB = 2**30
_SLICE = re.compile(
    r"(?<![0-9.])(?P<compute>[1-9])g\.(?P<size>\d{1,3}(?:\.\d{1,2})?)gb"
    r"(?:(?P<sign>[+.-])(?P<variant>(?:me|gfx)(?:\.all)?))?(?![a-z0-9])"
)
_TOKEN = re.compile(r"[a-z]+\d+[a-z]?|[a-z]+|\d{4}[a-z]?")
_NOT_A_MODEL = re.compile(
    r"gpu|cpu|mig|nodes?|gi?b|hbm\d?|pcie|sxm\d?|intel|amd|nvidia|ib|avx\d*|sse\d|x86|tesla|xeon|"
    r"epyc|cores?|dual|socket|with|of|the|and|per|from|each|its|memory|bandwidth|compute|slice|"
    r"platinum|gold|silver|llnl"
)
_SAME_SIZE_GB = 1.0
_SAME_SIZE_SHARE = 0.06
"""Sizes that differ by less than either are one size, rounded differently: 39 and 40, 94 and 95."""
_EQUALLY_NEAR_GB = 0.5


@dataclass(frozen=True, slots=True)
class SliceName:
    """What a type name says of a slice; ``gpu``: its words before and after the profile."""

    compute_slices: int
    size_gb: float
    suffixes: tuple[str, ...]
    """The variant (``+me``) in the spellings that the geometry may have; the plain one last."""
    gpu: str


@dataclass(frozen=True, slots=True)
class NamedSlice:
    """A profile that a slice's name may mean."""

    geometry: Geometry
    profile: SliceProfile
    devices: tuple[Device, ...]
    """The GPUs of that geometry that were named; all where none was."""


@dataclass(frozen=True, slots=True)
class Meanings:
    """What a slice's name may mean, the likeliest first."""

    slices: tuple[NamedSlice, ...]
    names_gpu: bool
    """Whether the name, or a feature of the node, tells the GPU model."""


def model_words(text: str) -> frozenset[str]:
    """Words that can name a model: ``h100``, ``7742``, ``rome``; not units, vendors, articles."""
    words = (w for w in _TOKEN.findall(text.lower()) if len(w) > 2)
    return frozenset(w for w in words if _NOT_A_MODEL.fullmatch(w) is None)


def slice_named(text: str) -> SliceName | None:
    """The slice in a type's name or a node's features; None: there is none."""
    match = _SLICE.search(text.lower())
    if match is None:
        return None
    variant = match["variant"]
    signs = dict.fromkeys(("-", "+") if match["sign"] == "-" else ("+", "-"))
    suffixes = tuple(f"{sign}{variant}" for sign in signs) if variant else ()
    rest = f"{text[: match.start()]} {text[match.end() :]}".lower()
    gpu = re.sub(r"(?<![a-z0-9])mig(?![a-z0-9])", " ", rest.replace("_", " "))
    return SliceName(int(match["compute"]), float(match["size"]), (*suffixes, ""), gpu.strip())


def meanings(asked: SliceName, features: Iterable[str] = ()) -> Meanings:
    """The profiles that a name may mean: of the GPU model in it, else in the node's features."""
    devices = _devices(asked.gpu)
    if devices is None:
        of_features = [found for f in features if (found := _devices(f))]
        devices = {name: one for found in of_features for name, one in found.items()} or None
    nearest = sorted(_nearest(asked, devices), key=lambda item: item[0])
    if not nearest:
        return Meanings((), devices is not None)
    (is_double, apart_gb), _ = nearest[0]
    near = [
        found
        for (double, apart), found in nearest
        if double == is_double and apart <= apart_gb + _EQUALLY_NEAR_GB
    ]
    return Meanings(tuple(near), devices is not None)


def _devices(text: str) -> dict[str, Device] | None:
    """The GPUs that the words name, those that cannot be cut left out; None: no model is named."""
    found = candidates(text)
    if not found:
        words = model_words(text)
        if not words:
            return None
        found = tuple(one for word in sorted(words) for one in candidates(word))
    return {device.name: device for device in found if device.mig}


def _nearest(
    asked: SliceName, devices: dict[str, Device] | None
) -> Iterator[tuple[tuple[bool, float], NamedSlice]]:
    """Of each geometry the nearest profile, with whether it has double memory and how far it is."""
    for geometry in geometries().values():
        named = tuple(d for d in (devices or {}).values() if d.mig == geometry.gpu)
        if devices is not None and not named:
            continue
        same = [p for p in geometry.profiles if p.compute_slices == asked.compute_slices]
        suffix = next((s for s in asked.suffixes if any(p.suffix == s for p in same)), "")
        same = [p for p in same if p.suffix == suffix]
        profile = min(same, key=lambda p: _apart_gb(asked, p), default=None)
        if profile is None:
            continue
        apart = _apart_gb(asked, profile)
        if apart <= max(_SAME_SIZE_GB, _SAME_SIZE_SHARE * asked.size_gb):
            is_double = profile.memory_slices > min(p.memory_slices for p in same)
            yield (is_double, apart), NamedSlice(geometry, profile, named)


def _apart_gb(asked: SliceName, profile: SliceProfile) -> float:
    """From the nominal size or from what a program can use, whichever is nearer."""
    nominal = float(profile.name.removesuffix(profile.suffix).partition(".")[2][:-2])
    return min(abs(asked.size_gb - size) for size in (nominal, profile.memory_bytes / _GIB))
