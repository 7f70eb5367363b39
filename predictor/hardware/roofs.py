"""A platform's roofs for deep learning: peaks by precision, bandwidths by level, launch cost.

Peaks by precision come from the platform file and the device's data sheet (``devices/``), all else
from the platform's Signature. Attainable = min(peak, bandwidth x intensity): Williams,
Waterman, Patterson, CACM 52(4), 2009; the thesis, equation 3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from berth.pilot.platform import Peaks, Platform, PlatformKind, SignatureSource
from berth.predictor.hardware.ceilings import Ceilings, Point
from berth.predictor.hardware.device import Numbers, best
from berth.predictor.hardware.unit import known_unit

CPU_CALL_S = 2e-6
"""Calling one operator on a CPU."""


@dataclass(frozen=True, slots=True)
class Roof:
    """One platform's ceilings; rates per second, for the whole platform."""

    platform: str
    is_gpu: bool
    vector_flops: float
    """Peak of everything that is no matrix product or convolution."""
    matrix_flops: Mapping[Numbers, float]
    dram_bytes: float
    l2_bytes: float
    """Rate of the second-level cache; on a CPU, of the last level."""
    l1_bytes: float
    l2_capacity: float
    launch_s: float
    memory_bytes: float
    price_per_hour: float | None
    power_w: float | None
    share: float
    """Share of its parent's multiprocessors; 1 for what is no slice."""
    parent: str | None
    benchmarked: bool
    """True where programs were measured to reach these rates; False for a data sheet's."""
    native: frozenset[Numbers]
    """Numbers that its matrix units compute in; others are converted, which saves bytes alone."""

    @property
    def matrix_known(self) -> bool:
        """Return whether a data sheet is known; without one every precision has the fp32 peak."""
        return len(self.native) > 1


def roofs(platforms: Mapping[str, Platform]) -> dict[str, Roof]:
    """Return the roofs of all platforms by name."""
    return {name: roof_of(p, platforms, p.cores) for name, p in platforms.items()}


def roof_of(platform: Platform, platforms: Mapping[str, Platform], cores: int) -> Roof:
    """Return one platform's roof; of a CPU, with so many of its cores."""
    table = Ceilings.of([Point(platform, 1 if platform.is_gpu else cores)])
    vector = float(table.flops_f32[0])
    parent = platforms.get(platform.parent) if platform.parent else None
    slice_ = platform.kind is PlatformKind.MIG and parent is not None
    unit = known_unit(platform, platforms)
    if unit is not None:
        peaks, share = unit.peaks, unit.share
    else:
        peaks = platform.signature.peaks or Peaks()
        share = 1.0 if platform.is_gpu else cores / platform.cores
    return Roof(
        platform=platform.name,
        is_gpu=platform.is_gpu,
        vector_flops=vector,
        matrix_flops=_matrix(vector, peaks, share),
        dram_bytes=float(table.dram_bytes[0]),
        l2_bytes=float(table.l2_bytes[0] if platform.is_gpu else table.l3_bytes[0]),
        l1_bytes=float(table.l1_bytes[0]),
        l2_capacity=float(table.l3_capacity[0]),
        launch_s=float(table.fork_s[0]) if platform.is_gpu else
        CPU_CALL_S + float(table.fork_s[0]),
        memory_bytes=platform.memory_bytes,
        price_per_hour=platform.price_per_hour,
        power_w=platform.power_w,
        share=platform.cores / parent.cores if slice_ and parent is not None else 1.0,
        parent=platform.parent if slice_ else None,
        benchmarked=platform.signature.source is SignatureSource.BENCHMARK,
        native=frozenset(n for n in Numbers if n is Numbers.FP32 or best(peaks, n.precision)),
    )  # fmt: skip


def _matrix(vector: float, peaks: Peaks, share: float) -> dict[Numbers, float]:
    """Return peaks by numbers.

    fp32 is at the Signature's peak, also where matrix units have fp32 (AMD): with it the shares
    of the roof were measured (``roof_shares.json``).
    """

    def own(numbers: Numbers, wider: float) -> float:
        peak = best(peaks, numbers.precision)
        return wider if peak is None else peak * share

    half = own(Numbers.FP16, vector)
    return {
        Numbers.FP32: vector,
        Numbers.TF32: max(own(Numbers.TF32, vector), vector),
        Numbers.FP16: half,
        Numbers.BF16: own(Numbers.BF16, vector),
        Numbers.FP8: own(Numbers.FP8, half),
    }
