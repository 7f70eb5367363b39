"""Device: the data sheet of an accelerator model, one JSON file per model in ``devices/``.

Rates are per second, in SI units; peaks are without sparsity and by precision. A figure that was
not published is None, never guessed.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, model_validator

from berth.pilot.documents import Document
from berth.pilot.platform import Peaks, Precision
from berth.pilot.profile import Name, Positive


class Numbers(StrEnum):
    """The number format that a model computes in."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"

    @property
    def bits(self) -> int:
        """Return the bits per element in memory (TF32: 32)."""
        return {"fp32": 32, "tf32": 32, "fp16": 16, "bf16": 16, "fp8": 8}[self.value]

    @property
    def precision(self) -> Precision:
        """Return the number format as a ``Precision``, the key of a device's peak rates."""
        return Precision(self.value)


def best(peaks: Peaks, precision: Precision) -> float | None:
    """Return the higher of the peaks with and without matrix units, in flops per second.

    None where the device has no hardware units for the precision.
    """
    peaks_there = [table[precision] for table in (peaks.matrix, peaks.vector) if precision in table]
    return max(peaks_there, default=None)


def of_bits(peaks: Peaks, bits: float) -> float:
    """Return the peak flops per second of matrix products on operands of ``bits`` bits.

    Above 16 bits the peak is that of fp32 without matrix units. Sizes without hardware units have
    the peak of the next wider size.
    """
    reached = peaks.attainable
    half = max(reached.get(Precision.BF16, 0.0), reached.get(Precision.FP16, 0.0))
    if bits > 16:
        return peaks.vector.get(Precision.FP32) or half / 2
    if bits > 8:
        return half
    eight = best(peaks, Precision.FP8) or half
    return eight if bits > 4 else best(peaks, Precision.FP4) or eight


def joined(sheet: Peaks | None, own: Peaks | None) -> Peaks | None:
    """Return a data sheet's peaks, replaced by a platform file's own peaks where those exist."""
    if sheet is None or own is None:
        return own or sheet
    return Peaks(vector={**sheet.vector, **own.vector}, matrix={**sheet.matrix, **own.matrix})


SHEET = "sheet"
"""Key in ``DataSheet.sources`` for all groups of figures without an entry of their own."""
GROUPS = frozenset({SHEET, "clock", "memory", "l2", "link", "power", "peaks", "launch", "mig"})


class DataSheet(Document):
    """The data sheet of an accelerator model; MIG slices are not devices (see ``unit.Unit``)."""

    schema_: str = Field(default="berth.device/1", alias="schema")
    name: Name
    """Canonical name: ``model-form-memory``, for example ``h100-sxm-80gb``."""
    description: str
    aliases: tuple[str, ...] = ()
    """Names of the device in drivers (NVML), data sheets and data sets.

    A name that several devices have is ambiguous.
    """
    vendor: str = Field(pattern="^[a-z]+$")
    software: str = Field(pattern="^[a-z-]+$")
    """Software platform of the device's programs: ``cuda``, ``hip``, ...

    Devices that run the same binaries, or at least the same sources, have the same value.
    """
    architecture: str = ""
    chip: str | None = None
    """Name of the chip; devices with the same chip differ in clocks, memory and enabled units."""
    isa: str | None = Field(default=None, pattern="^(sm_[0-9]+|gfx[0-9a-f]+)$")
    """The compiler's target: ``sm_90``, ``gfx90a``."""
    year: int | None = Field(default=None, ge=2000)
    process_nm: int | None = Field(default=None, ge=1)
    multiprocessors: int | None = Field(default=None, ge=1)
    """Number of streaming multiprocessors (NVIDIA), compute units (AMD), or their equivalent."""
    clock_hz: Positive | None = None
    """Boost clock, at which the peaks hold."""
    memory_bytes: Positive | None = None
    bytes_per_s: Positive | None = None
    """Peak bandwidth of the device's memory."""
    l2_bytes: Positive | None = None
    link_bytes_per_s: Positive | None = None
    """Bandwidth of the links to other devices, in one direction."""
    power_w: Positive | None = None
    """Rated board power."""
    launch_overhead_s: Positive | None = None
    """Measured time to start one kernel; None if not measured."""
    peaks: Peaks | None = None
    """Peak rates by precision; None if unknown."""
    mig: str | None = None
    """Name of the device's MIG geometry in ``table.json``; None if it does not support MIG."""
    sources: dict[str, str]
    """The document or measurement behind each group of figures (``GROUPS``)."""

    @model_validator(mode="after")
    def _sourced(self) -> DataSheet:
        unknown = sorted(self.sources.keys() - GROUPS)
        if unknown:
            raise ValueError(f"sources: there is no group {unknown[0]!r}")
        if SHEET not in self.sources:
            raise ValueError(f"sources needs a {SHEET!r}")
        return self

    @property
    def generation(self) -> int | None:
        """Return the instruction set's major number: 9 for ``sm_90`` and ``gfx90a``."""
        if self.isa is None:
            return None
        return int(self.isa[3:-1] if self.isa.startswith("sm_") else self.isa[3:-2])
