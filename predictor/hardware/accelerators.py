"""What a language model needs to know of a GPU or another accelerator, and where it is from.

The catalogue (``accelerators.json``) names shipped platforms by their names; a site's own
platform of another name points to its accelerator by its key ``accelerator``. A slice (MIG) is
its parent's accelerator with the slice's share of multiprocessors, bandwidth and memory.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import Field

from berth.pilot.documents import Document, read_json
from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform, PlatformKind
from berth.pilot.profile import Positive

CATALOGUE = Path(__file__).with_name("accelerators.json")
SUSTAINED_SHARE = 0.9
"""Of the memory's peak rate, in the platforms' signatures: they hold sustained rates."""


class CudaLimits(Document):
    """What ``cudaDeviceProp`` says."""

    compute_major: int
    compute_minor: int
    threads_per_block: int
    threads_per_multiprocessor: int
    registers_per_block: int
    registers_per_multiprocessor: int
    warp_size: int
    shared_bytes_per_block: int
    shared_bytes_per_multiprocessor: int
    shared_bytes_opt_in: int


class Accelerator(Document):
    """One kind of accelerator by its data sheet: peaks, dense, per second."""

    name: str
    description: str
    source: str
    memory_bytes: Positive
    bytes_per_s: Positive
    flops_f32_per_s: Positive | None
    flops_f16_per_s: Positive
    flops_f8_per_s: Positive | None
    flops_f4_per_s: Positive | None
    link_bytes_per_s: Positive | None
    """To its neighbours, one direction; None: not published."""
    multiprocessors: int = Field(ge=1)
    l2_bytes: Positive | None
    power_w: Positive | None
    platforms: tuple[str, ...]
    """Shipped platforms that have it."""
    cuda: CudaLimits | None


class _Catalogue(Document):
    schema_: str = Field(default="berth.accelerators/1", alias="schema")
    accelerators: tuple[Accelerator, ...]


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator, or a slice of one, as a place to serve from."""

    name: str
    """Of the platform, or of the accelerator where the site has no platform of it."""
    accelerator: Accelerator
    share: float
    """Of the multiprocessors; 1 for the whole."""
    memory_bytes: float
    bytes_per_s: float
    price_per_hour: float | None
    power_w: float | None

    @property
    def whole(self) -> bool:
        """False for slices."""
        return self.share >= 1

    def flops_per_s(self, bits: float) -> float:
        """Peak of matrix products on operands of so many bits; the next wider unit if absent."""
        a = self.accelerator
        f8 = a.flops_f8_per_s or a.flops_f16_per_s
        if bits > 16:
            peak = a.flops_f32_per_s or a.flops_f16_per_s / 2
        elif bits > 8:
            peak = a.flops_f16_per_s
        else:
            peak = f8 if bits > 4 else (a.flops_f4_per_s or f8)
        return peak * self.share


@cache
def catalogue() -> Mapping[str, Accelerator]:
    """All known accelerators by name."""
    return {a.name: a for a in read_json(CATALOGUE, _Catalogue).accelerators}


def whole(accelerator: Accelerator) -> Device:
    """The accelerator itself, as its data sheet has it."""
    return Device(
        accelerator.name, accelerator, 1.0, accelerator.memory_bytes, accelerator.bytes_per_s,
        None, accelerator.power_w,
    )  # fmt: skip


def device(platform: Platform, platforms: Mapping[str, Platform]) -> Device | None:
    """The platform as a place to serve from; None where its accelerator is not known."""
    parent = platforms.get(platform.parent) if platform.parent else None
    owner = parent or platform
    found = _accelerator(owner)
    if found is None:
        return None
    slice_ = platform.kind is PlatformKind.MIG and parent is not None
    share = platform.cores / parent.cores if slice_ and parent is not None else 1.0
    memory = platform.signature.level("dram")
    rate = memory.total_bytes_per_s / SUSTAINED_SHARE if slice_ and memory else found.bytes_per_s
    return Device(
        platform.name, found, min(share, 1.0), platform.memory_bytes, rate,
        platform.price_per_hour, platform.power_w or found.power_w,
    )  # fmt: skip


def devices(platforms: Mapping[str, Platform]) -> dict[str, Device]:
    """Every place to serve from: platforms whose accelerator is known, then the rest of the
    catalogue under its own names.
    """
    found = {name: d for name, p in platforms.items() if (d := device(p, platforms)) is not None}
    have = {d.accelerator.name for d in found.values() if d.whole}
    rest = {a.name: whole(a) for a in catalogue().values() if a.name not in have}
    return {**found, **rest}


def get(name: str, known: Mapping[str, Device]) -> Device:
    """One device by name. Raises UsageError that names the nearest known one."""
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else None
        raise UsageError(f"no accelerator is known of a platform {name!r}", hint=hint)
    return known[name]


def _accelerator(platform: Platform) -> Accelerator | None:
    if platform.accelerator is not None:
        if platform.accelerator not in catalogue():
            near = difflib.get_close_matches(platform.accelerator, catalogue(), n=1)
            raise UsageError(
                f"platform {platform.name}: there is no accelerator {platform.accelerator!r}",
                hint=f"did you mean {near[0]!r}?" if near else None,
            )
        return catalogue()[platform.accelerator]
    return next((a for a in catalogue().values() if platform.name in a.platforms), None)
