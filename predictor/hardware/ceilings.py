"""Ceilings: the peak rates of all platforms at each core count, as numpy columns.

Each row is one point: a platform with a number of cores or GPUs. The table is built once when a
predictor is loaded, so a profile is compared with all platforms in a few numpy operations. A rate
that a platform's Signature lacks is estimated here, by a rule that its comment names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from berth.pilot.platform import MemoryLevel, Platform, Signature
from berth.predictor.core.arrays import Floats
from berth.predictor.hardware.core_speed import core_score

CHAIN_CYCLES = 4.0
"""Cycles of one unit of the benchmark ``scalar_chain``: four dependent operations of one cycle each
(``pilot/kernels/bench_compute.c``). Multiplied by the rate of units, it gives the clock in Hz."""
INSTRUCTIONS_PER_CYCLE = 4.0
"""Instructions per cycle where nothing tells how fast the core is."""
INSTRUCTIONS_AT_SCORE_1 = INSTRUCTIONS_PER_CYCLE * 3.4e9
"""Instructions per second of a core with the integer score 1, the EPYC 7742: AMD's data sheet says
that it runs at up to 3.4 GHz."""
MISPREDICT_CYCLES = 17.0
DEFAULT_FORK_S = 8e-6
"""Default seconds of an OpenMP fork-join on a two-socket node, where it was not measured."""
DEFAULT_LATENCY_S = 95e-9
DEFAULT_L1_BYTES = 32 * 2**10
"""Default size of a core's L1 data cache, where the Signature has none."""
MEMORY_PARALLELISM = 10.0
"""Outstanding cache-line misses of one core (line-fill buffers)."""
CONTENDED_ATOMIC_CYCLES = 60.0
"""Default cycles to pass a cache line between cores, where atomics were not measured."""
DEFAULT_LAUNCH_S = 5e-6
"""Default seconds of a kernel launch on a GPU, where it was not measured."""
GPU_ATOMICS_PER_S = 0.7e9
"""Default rate of atomics to one address on a GPU: one 64-bit update per two L2 clock cycles."""
ATOMIC_BYTES = 20.0
"""Default bytes of second-level bandwidth that a GPU spends on an atomic update of one of many
addresses, where such updates were not measured: nodal accumulation on a V100."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A platform with the number of cores (CPU platform) or GPUs that a program uses."""

    platform: Platform
    units: int

    @property
    def cores(self) -> int:
        """Return the cores in use; 0 on a GPU."""
        return 0 if self.platform.is_gpu else self.units

    @property
    def gpus(self) -> int:
        """Return the GPUs or slices in use; 0 on a CPU platform."""
        return self.units if self.platform.is_gpu else 0


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Peak rates as columns, one entry per point (a platform with a number of cores or GPUs).

    Rates are per second, for all cores in use together.
    """

    points: tuple[Allocation, ...]
    is_gpu: npt.NDArray[np.bool_]
    units: Floats
    flops_f64: Floats
    flops_f32: Floats
    instructions: Floats
    l1_bytes: Floats
    l2_bytes: Floats
    l3_bytes: Floats
    dram_bytes: Floats
    l1_capacity: Floats
    l2_capacity: Floats
    l3_capacity: Floats
    """Capacity of the last level of cache before main memory (on a GPU: its L2)."""
    fetch_writes: Floats
    """1 where a write miss first fetches the cache line (CPUs), 0 where it does not (GPUs)."""
    mispredicts: Floats
    fork_s: Floats
    atomics: Floats
    """Atomic updates of one address."""
    scattered_atomics: Floats
    """Atomic updates of many addresses; infinite on CPUs, where they are instructions like others.
    """
    dram_core_bytes: Floats
    """Main memory's bytes per second for one core alone; on a GPU, of all of it."""

    @classmethod
    def of(cls, points: Iterable[Allocation]) -> Ceilings:
        """Return the table of peak rates of platforms, one row per point, in the points' order."""
        ordered = tuple(points)
        rows = np.array([_row(p) for p in ordered], dtype=np.float64).reshape(len(ordered), -1)
        columns = [np.ascontiguousarray(column) for column in rows.T]
        return cls(ordered, np.array([p.platform.is_gpu for p in ordered]), *columns)


def core_grid(platform: Platform) -> tuple[int, ...]:
    """Return the core counts to predict for: powers of two and the platform's total; GPUs: (1,)."""
    if platform.is_gpu:
        return (1,)
    grid = [1]
    while grid[-1] * 2 < platform.cores:
        grid.append(grid[-1] * 2)
    return (*grid, platform.cores) if platform.cores > 1 else (1,)


def _row(point: Allocation) -> tuple[float, ...]:
    return _gpu_row(point) if point.platform.is_gpu else _cpu_row(point)


def _cpu_row(point: Allocation) -> tuple[float, ...]:
    platform, units = point.platform, float(min(point.units, point.platform.cores))
    signature, cores = platform.signature, float(platform.cores)
    clock = _clock(signature, cores)
    dram = signature.level("dram")
    assert dram is not None  # noqa: S101 - Signature's own validator holds it
    dram_core = dram.core_bytes_per_s or min(
        dram.total_bytes_per_s, MEMORY_PARALLELISM * 64 / (dram.latency_s or DEFAULT_LATENCY_S)
    )
    l2 = signature.level("l2") or signature.level("l3") or dram
    l3 = signature.level("l3") or signature.level("l2") or dram
    l1 = signature.level("l1")
    l1_core = (l1.core_bytes_per_s or l1.total_bytes_per_s / cores) if l1 else 32 * clock
    instructions = signature.int_ops_core_per_s or _instructions(platform, clock)
    return (
        units,
        _up_to(units, signature.flops_f64_core_per_s, signature.flops_f64_per_s, cores),
        _up_to(units, signature.flops_f32_core_per_s, signature.flops_f32_per_s, cores),
        instructions * units,
        l1_core * units,
        _up_to(units, l2.core_bytes_per_s, l2.total_bytes_per_s, cores),
        _up_to(units, l3.core_bytes_per_s, l3.total_bytes_per_s, cores),
        _bandwidth(signature, units, dram_core, dram.total_bytes_per_s),
        l1.capacity_bytes if l1 else DEFAULT_L1_BYTES,
        l2.capacity_bytes,
        _reached(l3, units, cores),
        1.0,
        (signature.branch_misses_core_per_s or clock / MISPREDICT_CYCLES) * units,
        0.0 if units == 1 else signature.launch_overhead_s or DEFAULT_FORK_S,
        # A single core has no contention.
        math.inf if units == 1 else signature.atomics_per_s or clock / CONTENDED_ATOMIC_CYCLES,
        math.inf,
        _bandwidth(signature, 1.0, dram_core, dram.total_bytes_per_s),
    )


def _gpu_row(point: Allocation) -> tuple[float, ...]:
    platform = point.platform
    signature = platform.signature
    dram = signature.level("dram")
    assert dram is not None  # noqa: S101 - Signature's own validator holds it
    l2 = signature.level("l2") or dram
    l1 = signature.level("l1") or l2
    return (
        1.0,
        signature.flops_f64_per_s,
        signature.flops_f32_per_s,
        # A fused multiply-add is one instruction and two flops.
        signature.flops_f32_per_s / 2,
        l1.total_bytes_per_s,
        l2.total_bytes_per_s,
        dram.total_bytes_per_s,
        dram.total_bytes_per_s,
        # Threads of one multiprocessor work on neighbouring data and share its cache.
        l1.capacity_bytes / platform.cores if l1 is not l2 else DEFAULT_L1_BYTES,
        l2.capacity_bytes,
        l2.capacity_bytes,
        0.0,
        # A diverging branch repeats half a warp's lanes; no pipeline is flushed.
        signature.flops_f32_per_s / 32,
        signature.launch_overhead_s or DEFAULT_LAUNCH_S,
        signature.atomics_per_s or GPU_ATOMICS_PER_S,
        signature.scattered_atomics_per_s or l2.total_bytes_per_s / ATOMIC_BYTES,
        dram.total_bytes_per_s,
    )


def _reached(level: MemoryLevel, units: float, cores: float) -> float:
    """Return the bytes of a cache level that ``units`` cores can use together.

    A level with several instances counts in proportion to the cores, but at least one instance.
    """
    if level.instances == 1:
        return level.capacity_bytes
    return level.capacity_bytes * max(1.0 / level.instances, units / cores)


def _instructions(platform: Platform, clock: float) -> float:
    """Return the instructions per second of one core whose integer rate was not measured."""
    score = core_score(platform)
    return (
        INSTRUCTIONS_PER_CYCLE * clock if score is None else INSTRUCTIONS_AT_SCORE_1 * score.integer
    )


def _clock(signature: Signature, cores: float) -> float:
    if signature.scalar_chain_core_per_s:
        return signature.scalar_chain_core_per_s * CHAIN_CYCLES
    if signature.int_ops_core_per_s:
        return signature.int_ops_core_per_s / INSTRUCTIONS_PER_CYCLE
    return signature.flops_f64_per_s / cores / 16


def _up_to(units: float, core: float | None, total: float, cores: float) -> float:
    """Return the rate of ``units`` cores: ``core`` each, and at most the platform's ``total``."""
    return min(units * (core or total / cores), total)


def _bandwidth(signature: Signature, units: float, core: float, total: float) -> float:
    """Return main memory's bytes per second for ``units`` cores.

    Measured core counts are interpolated; otherwise the result is a smooth minimum of the cores'
    own rates and the platform's total.
    """
    if len(signature.thread_scaling) >= 2:
        threads, rates = zip(*sorted(signature.thread_scaling), strict=True)
        if threads[0] <= units <= threads[-1]:
            return float(np.interp(units, threads, rates))
    return float(((units * core) ** -4.0 + total**-4.0) ** -0.25)
