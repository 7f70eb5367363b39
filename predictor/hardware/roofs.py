"""A platform's roofs for deep learning: peaks by precision, bandwidths by level, launch cost.

Peaks of matrix units come from the accelerators' data sheets (``predictor/llm/accelerators.json``),
all else from the platform's Signature. Attainable = min(peak, bandwidth x intensity): Williams,
Waterman, Patterson, CACM 52(4), 2009; the thesis, equation 3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from berth.pilot.platform import Platform, PlatformKind, SignatureSource
from berth.predictor.families.program.ceilings import Ceilings, Point
from berth.predictor.hardware.accelerators import Device, devices

CPU_CALL_S = 2e-6
"""Calling one operator on a CPU."""
AMPERE = 8
"""First NVIDIA generation with TensorFloat-32."""


class Numbers(StrEnum):
    """What a model computes in."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"

    @property
    def bits(self) -> int:
        """Of an element as it is stored."""
        return {"fp32": 32, "tf32": 32, "fp16": 16, "bf16": 16, "fp8": 8}[self.value]


@dataclass(frozen=True, slots=True)
class Roof:
    """One platform's ceilings; rates per second, for the whole platform."""

    platform: str
    is_gpu: bool
    vector_flops: float
    """Of everything that is no matrix product or convolution."""
    matrix_flops: Mapping[Numbers, float]
    dram_bytes: float
    l2_bytes: float
    """On a CPU: of the last level."""
    l1_bytes: float
    l2_capacity: float
    launch_s: float
    memory_bytes: float
    price_per_hour: float | None
    power_w: float | None
    share: float
    """Of its parent's multiprocessors; 1 for what is no slice."""
    parent: str | None
    benchmarked: bool
    """True where programs were measured to reach these rates; False for a data sheet's."""
    native: frozenset[Numbers]
    """What its matrix units compute in; others are converted, which saves bytes alone."""

    @property
    def matrix_known(self) -> bool:
        """False where no data sheet is known: every precision then has the fp32 peak."""
        return len(self.native) > 1


def roofs(platforms: Mapping[str, Platform]) -> dict[str, Roof]:
    """The roofs of all platforms by name."""
    found = devices(platforms)
    return {name: _roof(p, platforms, found.get(name), p.cores) for name, p in platforms.items()}


def roof_of(platform: Platform, platforms: Mapping[str, Platform], cores: int) -> Roof:
    """One platform's roof; of a CPU, with so many of its cores."""
    return _roof(platform, platforms, devices(platforms).get(platform.name), cores)


def _roof(
    platform: Platform, platforms: Mapping[str, Platform], device: Device | None, cores: int
) -> Roof:
    table = Ceilings.of([Point(platform, 1 if platform.is_gpu else cores)])
    vector = float(table.flops_f32[0])
    parent = platforms.get(platform.parent) if platform.parent else None
    slice_ = platform.kind is PlatformKind.MIG and parent is not None
    return Roof(
        platform=platform.name,
        is_gpu=platform.is_gpu,
        vector_flops=vector,
        matrix_flops=_matrix(vector, device),
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
        native=_native(device),
    )  # fmt: skip


def _matrix(vector: float, device: Device | None) -> dict[Numbers, float]:
    if device is None:
        return dict.fromkeys(Numbers, vector)
    half = device.flops_per_s(16)
    cuda = device.accelerator.cuda
    tf32 = half / 2 if cuda is not None and cuda.compute_major >= AMPERE else vector
    return {
        Numbers.FP32: vector,
        Numbers.TF32: max(tf32, vector),
        Numbers.FP16: half,
        Numbers.BF16: half if cuda is None or cuda.compute_major >= AMPERE else vector,
        Numbers.FP8: device.flops_per_s(8),
    }


def _native(device: Device | None) -> frozenset[Numbers]:
    found = {Numbers.FP32}
    if device is not None:
        found.add(Numbers.FP16)
        cuda = device.accelerator.cuda
        if cuda is None or cuda.compute_major >= AMPERE:
            found.add(Numbers.BF16)
        if cuda is not None and cuda.compute_major >= AMPERE:
            found.add(Numbers.TF32)
        if device.accelerator.flops_f8_per_s is not None:
            found.add(Numbers.FP8)
    return frozenset(found)
