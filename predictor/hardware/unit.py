"""Unit: a device, or a slice of one, as a place to compute on, with what a site's platform adds.

A slice (MIG) has its parent's data sheet and shares of it: of the multiprocessors by their number,
of the memory system by the two platforms' bandwidths.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

from berth.pilot.errors import UsageError
from berth.pilot.platform import Peaks, Platform, PlatformKind, Precision
from berth.predictor.hardware.catalogue import device_of, devices, find, get
from berth.predictor.hardware.device import SHEET, Device, Numbers, joined, of_bits

SUSTAINED_SHARE = 0.9
"""Share of the memory's peak rate that is sustained, as in the platforms' signatures."""
_L2_BYTES = 2.0**22
"""Second-level cache where nobody published it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A place that a scheduler hands out; rates per second, peaks of the data sheet."""

    name: str
    """Name of the platform, or of the device where the site has no platform of it."""
    sheet: Device
    peaks: Peaks
    """Peaks of the whole device."""
    share: float
    """Share of the multiprocessors; 1 for the whole."""
    multiprocessors: float
    memory_bytes: float
    bytes_per_s: float
    l2_bytes: float
    price_per_hour: float | None = None
    power_w: float | None = None

    @property
    def whole(self) -> bool:
        """Return whether it is a whole device; False for slices."""
        return self.share >= 1

    @property
    def vector_flops(self) -> float:
        """Return the fp32 peak without matrix units."""
        return of_bits(self.peaks, 32) * self.share

    def peak(self, numbers: Numbers) -> float:
        """Return the peak of matrix products; numbers without units are computed in wider ones."""
        attainable = self.peaks.attainable.get(numbers.precision)
        return self.vector_flops if attainable is None else attainable * self.share

    def flops_per_s(self, bits: float) -> float:
        """Return the peak of matrix products on such operands, or in the next wider unit."""
        return of_bits(self.peaks, bits) * self.share


def whole(sheet: Device) -> Unit:
    """Return the device itself as a unit.

    Raises UsageError where its data sheet lacks peaks or memory.
    """
    if sheet.peaks is None or sheet.memory_bytes is None or sheet.bytes_per_s is None:
        raise UsageError(f"the peaks or the memory of {sheet.name} were not published")
    return Unit(
        sheet.name, sheet, sheet.peaks, 1.0, float(sheet.multiprocessors or 1), sheet.memory_bytes,
        sheet.bytes_per_s, sheet.l2_bytes or _L2_BYTES, None, sheet.power_w,
    )  # fmt: skip


def published(sheet: Device) -> bool:
    """Return whether the data sheet says enough to predict by: ``whole`` takes it."""
    return None not in (sheet.peaks, sheet.memory_bytes, sheet.bytes_per_s)


@cache
def unit_named(name: str) -> Unit:
    """Return a device of the catalogue by any of its names. Raises UsageError."""
    return whole(get(name))


def unit_of(platform: Platform, platforms: Mapping[str, Platform]) -> Unit | None:
    """Return a platform's GPU or slice; None for CPUs.

    By the catalogue; where that does not have it, from the platform's Signature.
    Raises UsageError for an ``accelerator`` that is unknown.
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
    """Return ``unit_of`` the platform, but None where the catalogue lacks the device, too."""
    owner = platforms.get(platform.parent, platform) if platform.parent else platform
    sheet = device_of(owner)
    return unit_of(platform, platforms) if sheet is not None and published(sheet) else None


def units(
    platforms: Mapping[str, Platform], others: Collection[str] | None = None
) -> dict[str, Unit]:
    """Return every place to compute on.

    Platforms whose device is known come first, then the rest of the catalogue under its own names,
    or of it only those named in ``others``.
    """
    own_units = {n: unit for n, p in platforms.items() if (unit := known_unit(p, platforms))}
    have = {unit.sheet.name for unit in own_units.values() if unit.whole}
    rest = [d for d in devices().values() if d.name not in have and published(d)]
    return own_units | {d.name: whole(d) for d in rest if others is None or d.name in others}


def get_unit(name: str, known: Mapping[str, Unit]) -> Unit:
    """Return one of ``units`` by its name, or by any name of its device.

    Raises UsageError that names the nearest known one.
    """
    if name in known:
        return known[name]
    device = find(name)
    same = [u for u in known.values() if device and u.whole and u.sheet.name == device.name]
    if not same:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else None
        raise UsageError(f"no accelerator is known of a platform {name!r}", hint=hint)
    return same[0]


def _slice(platform: Platform, parent: Platform, gpu: Unit) -> Unit:
    share = min(platform.cores / parent.cores, 1.0)
    own, all_ = platform.signature.level("dram"), parent.signature.level("dram")
    memory = min(own.total_bytes_per_s / all_.total_bytes_per_s, 1.0) if own and all_ else share
    return Unit(
        platform.name, gpu.sheet, gpu.peaks, share, float(platform.cores), platform.memory_bytes,
        gpu.bytes_per_s * memory, gpu.l2_bytes * memory, platform.price_per_hour,
        platform.power_w or (gpu.power_w and gpu.power_w * share),
    )  # fmt: skip


def _completed(sheet: Device | None, platform: Platform) -> Device:
    """Return the data sheet, with what it lacks taken from the platform's Signature."""
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
    return Device(
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
