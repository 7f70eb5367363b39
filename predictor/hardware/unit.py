"""Unit: a GPU or MIG slice that a job can use, with data sheet, memory, price and power.

A MIG slice has its GPU's data sheet. Its share of the multiprocessors is the ratio of their
numbers, its share of the memory system is the ratio of the two platforms' memory bandwidths.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

from berth.pilot.errors import UsageError
from berth.pilot.platform import Peaks, Platform, PlatformKind, Precision
from berth.predictor.hardware.catalogue import device_of, devices, get
from berth.predictor.hardware.device import SHEET, DataSheet, Numbers, joined, of_bits

SUSTAINED_SHARE = 0.9
"""Ratio of the memory bandwidth in platforms' Signatures to the data sheet's peak bandwidth."""
_L2_BYTES = 2.0**22
"""Default bytes of the second-level cache, where they were not published."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A GPU or MIG slice that a scheduler can allocate, with data sheet and rates per second."""

    name: str
    """Name of the platform, or of the device where the site has no platform for the device."""
    sheet: DataSheet
    peaks: Peaks
    """Peaks of the whole device."""
    share: float
    """Share of the device's multiprocessors, 1 for a whole device."""
    multiprocessors: float
    memory_bytes: float
    bytes_per_s: float
    l2_bytes: float
    price_per_hour: float | None = None
    power_w: float | None = None

    @property
    def whole(self) -> bool:
        """Return True for a whole device, False for a MIG slice."""
        return self.share >= 1

    @property
    def vector_flops(self) -> float:
        """Return the peak fp32 flops per second without matrix units."""
        return of_bits(self.peaks, 32) * self.share

    def peak(self, numbers: Numbers) -> float:
        """Return the peak flops per second of matrix products in a number format.

        A format without hardware units is computed in the next wider format that has them.
        """
        attainable = self.peaks.attainable.get(numbers.precision)
        return self.vector_flops if attainable is None else attainable * self.share

    def flops_per_s(self, bits: float) -> float:
        """Return the peak flops per second of matrix products on operands of ``bits`` bits.

        A size without hardware units is computed in the next wider size that has them.
        """
        return of_bits(self.peaks, bits) * self.share


def whole(sheet: DataSheet) -> Unit:
    """Return the whole device as a Unit.

    Raises UsageError where its data sheet lacks peaks or memory.
    """
    if sheet.peaks is None or sheet.memory_bytes is None or sheet.bytes_per_s is None:
        raise UsageError(f"the peaks or the memory of {sheet.name} were not published")
    return Unit(
        sheet.name, sheet, sheet.peaks, 1.0, float(sheet.multiprocessors or 1), sheet.memory_bytes,
        sheet.bytes_per_s, sheet.l2_bytes or _L2_BYTES, None, sheet.power_w,
    )  # fmt: skip


def published(sheet: DataSheet) -> bool:
    """Return whether the data sheet has peaks, memory size and bandwidth, as ``whole`` needs."""
    return None not in (sheet.peaks, sheet.memory_bytes, sheet.bytes_per_s)


@cache
def unit_named(name: str) -> Unit:
    """Return the Unit of a whole device, by any of the device's names.

    Raises UsageError for unknown or ambiguous names, and for data sheets without peaks or memory.
    """
    return whole(get(name))


def unit_of(platform: Platform, platforms: Mapping[str, Platform]) -> Unit | None:
    """Return the Unit of a platform's GPU or MIG slice; None for CPU platforms.

    Figures are the catalogue's; for a device that the catalogue lacks, the Signature's.
    Raises UsageError for an unknown ``accelerator``.
    """
    if not platform.is_gpu:
        return None
    parent = platforms.get(platform.parent) if platform.parent else None
    if platform.kind is PlatformKind.MIG and parent is not None:
        whole_unit = unit_of(parent, platforms)
        return None if whole_unit is None else _slice(platform, parent, whole_unit)
    sheet = _completed(device_of(platform), platform)
    own = platform.signature.peaks
    return Unit(
        platform.name, sheet, joined(sheet.peaks, own) or Peaks(), 1.0,
        float(sheet.multiprocessors or platform.cores), platform.memory_bytes,
        sheet.bytes_per_s or _peak_rate(platform), sheet.l2_bytes or _L2_BYTES,
        platform.price_per_hour, platform.power_w or sheet.power_w,
    )  # fmt: skip


def known_unit(platform: Platform, platforms: Mapping[str, Platform]) -> Unit | None:
    """Return the Unit of a platform's GPU or MIG slice, if its peaks by precision are known.

    They are known from the catalogue, or from the platform file's own ``signature.peaks``. None for
    CPU platforms.
    """
    owner = platforms.get(platform.parent, platform) if platform.parent else platform
    sheet = device_of(owner)
    known = (sheet is not None and published(sheet)) or owner.signature.peaks is not None
    return unit_of(platform, platforms) if known else None


def units(
    platforms: Mapping[str, Platform], others: Collection[str] | None = None
) -> dict[str, Unit]:
    """Return the Units of the platforms' GPUs and slices and of the catalogue's devices, by name.

    Platforms come first. Devices that no platform has follow under their own names: all of them,
    or only those in ``others``.
    """
    own_units = {n: unit for n, p in platforms.items() if (unit := known_unit(p, platforms))}
    have = {unit.sheet.name for unit in own_units.values() if unit.whole}
    rest = [d for d in devices().values() if d.name not in have and published(d)]
    return own_units | {d.name: whole(d) for d in rest if others is None or d.name in others}


def get_unit(name: str, known: Mapping[str, Unit]) -> Unit:
    """Return the Unit in ``known`` with this name, or the whole device with this name or alias.

    Raises UsageError that suggests the most similar names.
    """
    device = None if name in known else get(name)
    same = (u for u in known.values() if device and u.whole and u.sheet.name == device.name)
    found = known.get(name) or next(same, None)
    if found is None:
        raise UsageError(f"no accelerator is known of a platform {name!r}")
    return found


def _slice(platform: Platform, parent: Platform, gpu: Unit) -> Unit:
    share = min(platform.cores / parent.cores, 1.0)
    own, all_ = platform.signature.level("dram"), parent.signature.level("dram")
    memory = min(own.total_bytes_per_s / all_.total_bytes_per_s, 1.0) if own and all_ else share
    return Unit(
        platform.name, gpu.sheet, gpu.peaks, share, float(platform.cores), platform.memory_bytes,
        gpu.bytes_per_s * memory, gpu.l2_bytes * memory, platform.price_per_hour,
        platform.power_w or (gpu.power_w and gpu.power_w * share),
    )  # fmt: skip


def _completed(sheet: DataSheet | None, platform: Platform) -> DataSheet:
    """Return the data sheet, its peaks filled in from the platform's Signature where missing.

    Without a data sheet, a Device with the Signature's figures is returned.
    """
    signature = platform.signature
    stated = Peaks(
        vector={
            Precision.FP64: signature.flops_f64_per_s,
            Precision.FP32: signature.flops_f32_per_s,
        }
    )
    if sheet is not None:
        return sheet if sheet.peaks else sheet.model_copy(update={"peaks": stated})
    amd = "hip" in platform.targets
    l2 = signature.level("l2")
    return DataSheet(
        name=platform.name, description=platform.description, vendor="amd" if amd else "nvidia",
        software="hip" if amd else "cuda", multiprocessors=platform.cores, peaks=stated,
        bytes_per_s=_peak_rate(platform), l2_bytes=l2.capacity_bytes if l2 else None,
        memory_bytes=platform.memory_bytes, power_w=platform.power_w,
        sources={SHEET: "the platform's Signature"},
    )  # fmt: skip


def _peak_rate(platform: Platform) -> float:
    dram = platform.signature.level("dram")
    rate = dram.total_bytes_per_s if dram else platform.signature.flops_f32_per_s / 16
    return rate / SUSTAINED_SHARE
