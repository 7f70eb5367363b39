"""Profiles made by a known formula, for tests that need no data set: not measurements."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from berth.pilot.profile import (
    Invocation,
    Measurement,
    Profile,
    Provenance,
    Quality,
    RunsOn,
    Runtime,
    ScalingPoint,
    SizePoint,
)
from lab.kernels.examples import Example

PLATFORM = "epyc-genoa-vm"
LINE = 64.0
QUICK = 20
"""Trees that fit in no time."""


def counted(value: float) -> Measurement:
    return Measurement(value=value, quality=Quality.EMULATED, source="test")


def profile(
    name: str = "triad",
    *,
    bytes_moved: float = 2e8,
    flops: float = 2e7,
    regions: float | None = 1.0,
    runtime_s: float | None = None,
    peak: float | None = 3e8,
    threads: int = 1,
    sizes: tuple[SizePoint, ...] = (),
    scaling: tuple[ScalingPoint, ...] = (),
    platform: str = PLATFORM,
    drop: tuple[str, ...] = (),
    counters: Mapping[str, float] | None = None,
    complete: bool = True,
    exit_status: int = 0,
) -> Profile:
    """A streaming program with these totals."""
    accesses = bytes_moved / 8 + flops / 32 + 1000
    instructions = accesses + flops + 1000
    misses = bytes_moved / LINE + 1
    values: dict[str, float] = {
        "instructions": instructions,
        "loads": accesses * 2 / 3,
        "stores": accesses / 3,
        "load_bytes": accesses * 16 / 3,
        "store_bytes": accesses * 8 / 3,
        "fp64_ops": flops,
        "fp32_ops": 0.0,
        "int_ops": instructions / 5,
        "branches": instructions / 10,
        "branch_misses": instructions / 1e5,
        "atomic_ops": 0.0,
    }
    for level in ("l1", "l2", "llc"):
        values[f"{level}_load_misses"] = misses * 2 / 3
        values[f"{level}_store_misses"] = misses / 3
    if regions is not None:
        values["gpu_kernels"] = regions
    values.update(counters or {})
    seconds = runtime_s or max(bytes_moved / 20e9, flops / 8e9) + 1e-6
    return Profile(
        schema="berth.profile/1",
        name=name,
        platform=platform,
        workload=Invocation(command=("./app",), size=1e6),
        runs_on=RunsOn(threads=threads),
        runtime=Runtime(median_s=seconds, spread_s=seconds * 0.01, repeats_s=(seconds,)),
        peak_memory_bytes=peak,
        counters={key: counted(value) for key, value in values.items() if key not in drop},
        sizes=sizes,
        scaling=scaling,
        complete=complete,
        exit_status=exit_status,
        provenance=Provenance(created="2026-01-01T00:00:00Z", berth_version="0"),
    )


def examples(kernels: int = 14, sizes: tuple[int, ...] = (1000000, 4000000)) -> list[Example]:
    """Programs of rising arithmetic intensity; labels follow a roofline with some noise."""
    noise = np.random.default_rng(7)
    found = []
    for index in range(kernels):
        intensity = 2.0 ** (index / 2 - 4)
        for size in sizes:
            moved, flops = 24.0 * size, 24.0 * size * intensity
            own = profile(f"Toy_K{index}-{size}", bytes_moved=moved, flops=flops, peak=moved + 3e6)
            quartz = max(moved / 11e9, flops / 5e9) * math.exp(noise.normal(0, 0.1))
            v100 = (max(moved / 8e11, flops / 5e12) + 5e-6) * math.exp(noise.normal(0, 0.1))
            seconds = {"quartz": quartz, "lassen-v100": v100}
            found.append(Example(f"Toy_K{index}", size, own, seconds))
    return found
