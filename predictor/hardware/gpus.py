"""GPUs by their data sheets: all that the operator model needs to know of one.

``gpus.json`` holds GPUs that were measured or that platforms have. A site's platform that is not
among them is taken from its Signature and accelerator; what is not said there is left unknown.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from pydantic import Field

from berth.pilot.documents import Document, read_json
from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform, PlatformKind
from berth.pilot.profile import Positive
from berth.predictor.hardware import accelerators
from berth.predictor.hardware.roofs import Numbers, roof_of

CATALOGUE = Path(__file__).with_name("gpus.json")
KERNEL_S = 4e-6
"""From one kernel's end to the next one's work when they are queued back to back."""


class GpuEntry(Document):
    """One GPU of the catalogue."""

    name: str
    description: str
    vendor: str = Field(pattern="^(nvidia|amd)$")
    generation: int = Field(ge=1)
    """NVIDIA: the compute capability's major number; AMD: its GFX generation."""
    process_nm: int = Field(ge=1)
    multiprocessors: int = Field(ge=1)
    clock_hz: Positive
    memory_bytes: Positive
    bytes_per_s: Positive
    l2_bytes: Positive
    power_w: Positive
    vector_flops_per_s: Positive
    matrix_flops_per_s: dict[Numbers, Positive]
    devices: tuple[str, ...]
    """Its names in data sets."""
    platforms: tuple[str, ...]
    """Shipped platforms that have it."""


class _Catalogue(Document):
    schema_: str = Field(default="berth.gpus/1", alias="schema")
    source: str
    gpus: tuple[GpuEntry, ...]


@dataclass(frozen=True, slots=True)
class Gpu:
    """What operators run on; rates per second, peaks of the data sheet. None: not known."""

    name: str
    amd: bool
    generation: int | None
    process_nm: int | None
    multiprocessors: float
    bytes_per_s: float
    l2_bytes: float
    memory_bytes: float
    power_w: float | None
    vector_flops: float
    matrix_flops: Mapping[Numbers, float]

    def __post_init__(self) -> None:
        rates = {
            "multiprocessors": self.multiprocessors, "bytes_per_s": self.bytes_per_s,
            "l2_bytes": self.l2_bytes, "vector_flops": self.vector_flops,
            **{f"matrix_flops[{n.value}]": x for n, x in self.matrix_flops.items()},
        }  # fmt: skip
        for name, value in rates.items():
            if not 0 < value < math.inf:
                raise UsageError(f"GPU {self.name}: {name} must be above 0, not {value}")
        if Numbers.FP32 not in self.matrix_flops:
            raise UsageError(f"GPU {self.name}: matrix_flops lacks fp32")

    def peak(self, numbers: Numbers) -> float:
        """Of matrix products; without units of its own fp8 is computed in fp16, others in fp32."""
        whole = self.matrix_flops[Numbers.FP32]
        if numbers is Numbers.FP8:
            whole = self.matrix_flops.get(Numbers.FP16, whole)
        return self.matrix_flops.get(numbers, whole)


def _gpu(entry: GpuEntry) -> Gpu:
    return Gpu(
        entry.name, entry.vendor == "amd", entry.generation, entry.process_nm,
        float(entry.multiprocessors), entry.bytes_per_s, entry.l2_bytes, entry.memory_bytes,
        entry.power_w, entry.vector_flops_per_s, entry.matrix_flops_per_s,
    )  # fmt: skip


@cache
def _entries() -> tuple[GpuEntry, ...]:
    return read_json(CATALOGUE, _Catalogue).gpus


@cache
def gpus() -> Mapping[str, Gpu]:
    """All GPUs of the catalogue by name."""
    return {entry.name: _gpu(entry) for entry in _entries()}


@cache
def _aliases() -> Mapping[str, str]:
    return {
        alias: entry.name
        for entry in _entries()
        for alias in (entry.name, *entry.devices, *entry.platforms)
    }


def find(name: str) -> Gpu:
    """By its name, a data set's or a shipped platform's. Raises UsageError for others."""
    known = _aliases()
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(gpus())}"
        raise UsageError(f"no GPU is called {name!r}", hint=hint)
    return gpus()[known[name]]


def of_platform(platform: Platform, platforms: Mapping[str, Platform]) -> Gpu | None:
    """A platform's GPU or slice; None for CPUs."""
    if not platform.is_gpu:
        return None
    parent = platforms.get(platform.parent) if platform.parent else None
    if platform.kind is PlatformKind.MIG and parent is not None:
        whole = of_platform(parent, platforms)
        return None if whole is None else _slice(platform, parent, whole)
    if platform.name in _aliases():
        known = find(platform.name)
        device = accelerators.device(platform, platforms)
        if device is not None and device.accelerator.flops_f8_per_s is not None:
            peaks = {Numbers.FP8: device.flops_per_s(8), **known.matrix_flops}
            return replace(known, name=platform.name, matrix_flops=peaks)
        return replace(known, name=platform.name)
    return _from_signature(platform, platforms)


def _slice(platform: Platform, parent: Platform, whole: Gpu) -> Gpu:
    share = min(platform.cores / parent.cores, 1.0)
    own, all_ = platform.signature.level("dram"), parent.signature.level("dram")
    memory = min(own.total_bytes_per_s / all_.total_bytes_per_s, 1.0) if own and all_ else share
    return replace(
        whole,
        name=platform.name,
        multiprocessors=float(platform.cores),
        bytes_per_s=whole.bytes_per_s * memory,
        l2_bytes=whole.l2_bytes * memory,
        memory_bytes=platform.memory_bytes,
        power_w=None if whole.power_w is None else whole.power_w * share,
        vector_flops=whole.vector_flops * share,
        matrix_flops={n: x * share for n, x in whole.matrix_flops.items()},
    )


def _from_signature(platform: Platform, platforms: Mapping[str, Platform]) -> Gpu:
    signature = platform.signature
    device = accelerators.device(platform, platforms)
    cuda = device.accelerator.cuda if device is not None else None
    dram, l2 = signature.level("dram"), signature.level("l2")
    roof = roof_of(platform, platforms, platform.cores)
    peaks = {n: peak for n, peak in roof.matrix_flops.items() if n in roof.native}
    sustained = dram.total_bytes_per_s if dram else signature.flops_f32_per_s / 16
    return Gpu(
        platform.name,
        "hip" in platform.targets,
        cuda.compute_major if cuda is not None else None,
        None,
        float(platform.cores),
        sustained / accelerators.SUSTAINED_SHARE,
        l2.capacity_bytes if l2 else 2.0**22,
        platform.memory_bytes,
        platform.power_w,
        signature.flops_f32_per_s,
        peaks,
    )
