"""A platform's roofline for deep learning: peaks by precision, bandwidths, launch overhead.

Peaks by precision come from the platform file and the device's data sheet (``devices/``), all
other figures from the platform's Signature. The roofline (Williams, Waterman, Patterson, CACM
52(4), 2009) is ``attainable = min(peak, bandwidth * intensity)``:

* ``attainable`` and ``peak``: flops per second;
* ``bandwidth``: bytes per second;
* ``intensity``: flops per byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from berth.pilot.platform import Peaks, Platform, PlatformKind, SignatureSource
from berth.predictor.hardware.ceilings import Allocation, Ceilings
from berth.predictor.hardware.device import Numbers, best
from berth.predictor.hardware.unit import known_unit

CPU_CALL_S = 2e-6
"""Seconds of a framework's overhead to call one operator on a CPU."""


@dataclass(frozen=True, slots=True)
class Roof:
    """The peak rates of one platform for deep learning, per second, for the whole platform."""

    platform: str
    is_gpu: bool
    vector_flops: float
    """Peak flops per second of operators other than matrix products and convolutions."""
    matrix_flops: Mapping[Numbers, float]
    dram_bytes: float
    l2_bytes: float
    """Bandwidth of a GPU's second-level cache, or of a CPU's last-level cache."""
    l1_bytes: float
    l2_capacity: float
    launch_s: float
    memory_bytes: float
    price_per_hour: float | None
    power_w: float | None
    share: float
    """A MIG slice's share of its GPU's multiprocessors; 1 for other platforms."""
    parent: str | None
    """Name of a MIG slice's GPU platform; None for other platforms."""
    benchmarked: bool
    """True where benchmarks measured these rates, False where they are a data sheet's."""
    native: frozenset[Numbers]
    """Number formats that the hardware computes in.

    Other formats are converted first, which saves memory traffic but no arithmetic.
    """

    @property
    def matrix_known(self) -> bool:
        """Return whether peaks of other formats than fp32 are known.

        Without them every format has the fp32 peak.
        """
        return len(self.native) > 1


def roofs(platforms: Mapping[str, Platform]) -> dict[str, Roof]:
    """Return the rooflines of all platforms by name, CPU platforms with all their cores."""
    return {name: roof_of(p, platforms, p.cores) for name, p in platforms.items()}


def roof_of(platform: Platform, platforms: Mapping[str, Platform], cores: int) -> Roof:
    """Return a platform's roofline; ``cores`` is the number of cores used on a CPU platform."""
    table = Ceilings.of([Allocation(platform, 1 if platform.is_gpu else cores)])
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
    """Return the peak flops per second of matrix products by number format.

    fp32 has the Signature's peak, even where matrix units compute fp32 (AMD), because the shares
    of the roof in ``roof_shares.json`` were measured against that peak.
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
