"""Device: one kind of accelerator by its data sheet, one JSON file each in ``devices/``.

Rates are SI units per second, peaks dense. A figure that nobody published is None, never guessed.
Peaks are by precision: what a device computes in units of its own, and what in wider ones.
"""

from __future__ import annotations

import json
from enum import StrEnum
from functools import cache
from pathlib import Path

from pydantic import Field, model_validator

from berth.pilot.documents import Document
from berth.pilot.platform import Peaks, Precision
from berth.pilot.profile import Name, Positive


class Numbers(StrEnum):
    """The numbers that a model computes in."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"

    @property
    def bits(self) -> int:
        """Return the bits of an element as it is stored."""
        return {"fp32": 32, "tf32": 32, "fp16": 16, "bf16": 16, "fp8": 8}[self.value]

    @property
    def precision(self) -> Precision:
        """Return the number format."""
        return Precision(self.value)


def best(peaks: Peaks, precision: Precision) -> float | None:
    """Return the faster peak, with or without matrix units; None: no units of its own."""
    peaks_there = [table[precision] for table in (peaks.matrix, peaks.vector) if precision in table]
    return max(peaks_there, default=None)


def of_bits(peaks: Peaks, bits: float) -> float:
    """Return the peak of matrix products on such operands; above 16 bits without matrix units."""
    reached = peaks.attainable
    half = max(reached.get(Precision.BF16, 0.0), reached.get(Precision.FP16, 0.0))
    if bits > 16:
        return peaks.vector.get(Precision.FP32) or half / 2
    if bits > 8:
        return half
    eight = best(peaks, Precision.FP8) or half
    return eight if bits > 4 else best(peaks, Precision.FP4) or eight


def joined(sheet: Peaks | None, own: Peaks | None) -> Peaks | None:
    """Return a data sheet's peaks with a platform file's over them."""
    if sheet is None or own is None:
        return own or sheet
    return Peaks(vector={**sheet.vector, **own.vector}, matrix={**sheet.matrix, **own.matrix})


CUDA_LIMITS = Path(__file__).with_name("cuda_limits.json")
SHEET = "sheet"
"""The source of every group of figures that ``sources`` does not name."""
GROUPS = frozenset({SHEET, "clock", "memory", "l2", "link", "power", "peaks", "launch", "mig"})


class CudaLimits(Document):
    """The limits of a compute capability, as in ``cudaDeviceProp``."""

    threads_per_multiprocessor: int
    registers_per_multiprocessor: int
    shared_bytes_per_multiprocessor: int
    shared_bytes_opt_in: int
    threads_per_block: int = 1024
    registers_per_block: int = 65536
    shared_bytes_per_block: int = 49152
    warp_size: int = 32


class Device(Document):
    """A device's data sheet. Slices of a device are no device of their own (``unit.Unit``)."""

    schema_: str = Field(default="berth.device/1", alias="schema")
    name: Name
    """Canonical: ``model-form-memory``, for example ``h100-sxm-80gb``."""
    description: str
    aliases: tuple[str, ...] = ()
    """Names that drivers (NVML), data sheets and data sets give it. One name may be several
    devices': it is then ambiguous."""
    vendor: str = Field(pattern="^[a-z]+$")
    software: str = Field(pattern="^[a-z-]+$")
    """Software that programs for it are built on: ``cuda``, ``hip``, ... Devices that run the same
    binaries or at least the same sources have the same."""
    architecture: str = ""
    chip: str | None = None
    """The silicon; devices of one chip differ in clocks, memory and what is switched off."""
    isa: str | None = Field(default=None, pattern="^(sm_[0-9]+|gfx[0-9a-f]+)$")
    """Compiler's target: ``sm_90``, ``gfx90a``."""
    year: int | None = Field(default=None, ge=2000)
    process_nm: int | None = Field(default=None, ge=1)
    multiprocessors: int | None = Field(default=None, ge=1)
    """Streaming multiprocessors, compute units, or what the vendor has in their place."""
    clock_hz: Positive | None = None
    """Boost clock, which the peaks are at."""
    memory_bytes: Positive | None = None
    bytes_per_s: Positive | None = None
    """Peak rate of the memory."""
    l2_bytes: Positive | None = None
    link_bytes_per_s: Positive | None = None
    """Rate to its neighbours, one direction."""
    power_w: Positive | None = None
    """Rated."""
    launch_overhead_s: Positive | None = None
    """Time to start one kernel, where it was measured."""
    peaks: Peaks | None = None
    """Peaks by precision; None: not known."""
    mig: str | None = None
    """Name of its geometry in ``table.json``; None: it cannot be cut."""
    sources: dict[str, str]
    """Document or measurement that each group of figures (``GROUPS``) is from."""

    @model_validator(mode="after")
    def _sourced(self) -> Device:
        unknown = sorted(self.sources.keys() - GROUPS)
        if unknown:
            raise ValueError(f"sources: there is no group {unknown[0]!r}")
        if SHEET not in self.sources:
            raise ValueError(f"sources needs a {SHEET!r}")
        return self

    @property
    def generation(self) -> int | None:
        """Return the major number of its instruction set: 9 of ``sm_90`` and ``gfx90a``."""
        if self.isa is None:
            return None
        return int(self.isa[3:-1] if self.isa.startswith("sm_") else self.isa[3:-2])

    @property
    def compute_capability(self) -> tuple[int, int] | None:
        """Return CUDA's compute capability, (major, minor)."""
        if self.isa is None or not self.isa.startswith("sm_"):
            return None
        return int(self.isa[3:-1]), int(self.isa[-1])

    @property
    def cuda(self) -> CudaLimits | None:
        """Return CUDA's limits by the compute capability; None where it has none."""
        return _cuda_limits().get(self.isa or "")


@cache
def _cuda_limits() -> dict[str, CudaLimits]:
    raw = json.loads(CUDA_LIMITS.read_text(encoding="utf-8"))
    return {isa: CudaLimits(**limits) for isa, limits in raw["limits"].items()}
