"""The roofline model: how long a program's work takes at a platform's peak rates.

The time is a maximum plus a sum. Floating-point units, instruction issue, each level of the memory
hierarchy and a GPU's atomic updates of many addresses overlap, so the largest of their times
counts. Mispredicted branches, starts of parallel regions or GPU kernels, and contended atomic
updates do not overlap and are added. Cache misses are known at a few cache capacities; between
these they are interpolated, and they vanish where the program's footprint fits into the cache. For
a GPU, this is the time of a GPU version of the program that does the same work.

Sources: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009; with a memory hierarchy: Ilic,
Pratas, Sousa, CAL 13(1), 2014.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.arrays import Floats
from berth.predictor.core.prediction import Bound
from berth.predictor.families.program.amdahl import ThreadScaling
from berth.predictor.families.program.work import (
    EMULATED_L1_BYTES,
    EMULATED_L2_BYTES,
    EMULATED_LLC_BYTES,
    LINE_BYTES,
    Levels,
    Work,
)
from berth.predictor.hardware.ceilings import Allocation, Ceilings

LIMITS = {
    "flops": (Bound.COMPUTE, "floating-point operations"),
    "instructions": (Bound.COMPUTE, "issuing instructions"),
    # The L1 cache belongs to the core, so a program limited by it counts as compute-bound.
    "l1": (Bound.COMPUTE, "first-level cache traffic"),
    "l2": (Bound.MEMORY, "second-level cache traffic"),
    "l3": (Bound.MEMORY, "last-level cache traffic"),
    "dram": (Bound.MEMORY, "main-memory traffic"),
    "branches": (Bound.LATENCY, "mispredicted branches"),
    "atomics": (Bound.LATENCY, "contended atomic updates"),
    "scattered": (Bound.LATENCY, "atomic updates of many addresses"),
    "launches": (Bound.LAUNCH, "starting parallel regions or kernels"),
    "serial": (Bound.SERIAL, "its serial part"),
}
"""Bound and printed name of each component of the roofline time."""
_TINY_S = 1e-12
PERFECT_SCALING = ThreadScaling(0.0, math.inf, measured=True)
"""Thread scaling of a program without a serial share."""
FITS = 3.0
"""Footprint, in multiples of the emulated last-level cache, up to which most of a sweep is cached.

Up to this limit, misses in caches between the emulated L2 and last level are computed from the
footprint, because an interpolation between both counts would be misleading.
"""


@dataclass(frozen=True, slots=True)
class RooflineTimes:
    """Roofline times in seconds by component, one array entry per platform and core count."""

    flops: Floats
    instructions: Floats
    l1: Floats
    l2: Floats
    l3: Floats
    dram: Floats
    branches: Floats
    launches: Floats
    atomics: Floats
    """Seconds of atomic updates that queue at a few addresses."""
    scattered: Floats
    """Seconds of atomic updates of many addresses; 0 on CPUs."""
    serial: Floats
    """Seconds that the program's serial share adds to perfect scaling."""
    fixed: Floats
    """Launches plus atomics: seconds that the program's efficiency does not change."""
    parallel: Floats
    """Seconds of all other components, where overlapping components count by their maximum."""
    reductions: Floats
    """Number of parallel regions (not seconds) whose results a GPU must combine and fetch; 0 on
    CPUs."""
    total: Floats

    def limit(self, index: int) -> tuple[str, float]:
        """Return the component (of ``LIMITS``) that takes most of the roofline time on the platform
        at ``index``, and its share of it."""
        seconds = {name: float(getattr(self, name)[index]) for name in LIMITS}
        name = max(seconds, key=seconds.__getitem__)
        return name, seconds[name] / float(self.total[index])

    def bound(self, index: int) -> Bound:
        """Return the resource that takes most of the roofline time on the platform at ``index``."""
        return LIMITS[self.limit(index)[0]][0]


def times(work: Work, ceilings: Ceilings, scaling: ThreadScaling) -> RooflineTimes:
    """Return how long the program's work takes by the roofline model, at each point of
    ``ceilings``.

    Seconds by component, for each platform and core count. They come from peak rates only and are
    not scaled to a measured time.
    """
    gpu = ceilings.is_gpu
    cores = scaling.usable(ceilings.units)
    # Rates in the table are for all cores; a program that uses fewer gets only its part of them.
    used = np.where(gpu, 1.0, cores / ceilings.units)
    flops = (work.flops_f64 / ceilings.flops_f64 + work.flops_f32 / ceilings.flops_f32) / used
    instructions = work.instructions / ceilings.instructions / used
    l1 = work.access_bytes / ceilings.l1_bytes / used
    l2 = traffic_bytes(work, ceilings.l1_capacity, ceilings.fetch_writes) / ceilings.l2_bytes / used
    l3 = traffic_bytes(work, ceilings.l2_capacity, ceilings.fetch_writes) / ceilings.l3_bytes / used
    dram = traffic_bytes(work, ceilings.l3_capacity, ceilings.fetch_writes) / ceilings.dram_bytes
    branches = work.mispredicts / ceilings.mispredicts / used
    regions = work.regions or 0.0
    # Whatever runs on a GPU is started there at least once.
    launches = np.where(gpu, max(regions, 1.0), regions) * ceilings.fork_s
    atomics = work.contended_atomics / ceilings.atomics
    scattered = work.scattered_atomics / ceilings.scattered_atomics
    overlapping = np.maximum.reduce([flops, instructions, l1, l2, l3, dram, scattered]) + branches
    # On one core: all rates are those of one core, but main memory's may be above its share.
    dram_on_one = dram * ceilings.dram_bytes / ceilings.dram_core_bytes
    of_core = np.maximum.reduce([flops, instructions, l1, l2, l3]) * cores
    one_core = np.maximum(of_core, dram_on_one) + branches * cores
    serial = np.where(gpu, 0.0, scaling.serial_s(one_core, overlapping))
    fixed, parallel = launches + atomics, overlapping + serial + _TINY_S
    return RooflineTimes(
        flops=flops,
        instructions=instructions,
        l1=l1,
        l2=l2,
        l3=l3,
        dram=dram,
        branches=branches,
        launches=launches,
        atomics=atomics,
        scattered=scattered,
        serial=serial,
        fixed=fixed,
        parallel=parallel,
        reductions=np.where(gpu, work.reductions, 0.0),
        total=fixed + parallel,
    )


def thread_scaling(profile: Profile, work: Work, home: Platform | None) -> ThreadScaling:
    """Return the program's thread scaling, with the speedup of its parallel share limited by the
    memory bandwidth of the platform ``home`` where it was measured (None: unknown).

    ``work``: the profile's work.
    """
    if home is None:
        return ThreadScaling.of(profile)

    def most_speedup(cores: int) -> float:
        table = Ceilings.of([Allocation(home, 1), Allocation(home, cores)])
        one_core_s, several_s = times(work, table, PERFECT_SCALING).parallel.tolist()
        return float(min(cores, max(1.0, one_core_s / several_s)))

    return ThreadScaling.of(profile, home, most_speedup)


def traffic_bytes(work: Work, capacity: Floats, fetch_writes: Floats) -> Floats:
    """Return the bytes that a cache of ``capacity`` bytes exchanges with the next level of memory.

    These are read misses, write-backs and, where ``fetch_writes`` is 1 (CPUs), the lines that a
    write miss fetches first. Between the emulated capacities, misses fall with the log of the
    capacity. As long as the footprint is larger than the cache, streams through it miss as they do
    in a small cache; once it fits, almost nothing misses.
    """
    reads, writes, back = (
        _missed(levels, capacity, work.footprint_bytes)
        for levels in (work.read_misses, work.write_misses, work.written_lines)
    )
    moved = LINE_BYTES * (reads + fetch_writes * writes + back)
    # Neighbouring GPU threads use a whole line: no level moves more bytes than were requested.
    return np.asarray(np.where(fetch_writes > 0, moved, np.minimum(moved, work.access_bytes)))


def _missed(misses: Levels, capacity: Floats, footprint: float) -> Floats:
    """Return the misses in a cache of ``capacity`` bytes, from those at the emulated capacities."""
    known = np.log((EMULATED_L1_BYTES, EMULATED_L2_BYTES, EMULATED_LLC_BYTES))
    inside = np.interp(np.log(capacity), known, misses)
    # Share of misses that remain: all up to a capacity of half the footprint, then fewer until
    # the footprint fits.
    homeless = np.clip(2.0 - 2.0 * capacity / footprint, 0.0, 1.0)
    if footprint <= FITS * EMULATED_LLC_BYTES:
        streaming = misses[2] + (misses[1] - misses[2]) * homeless
        inside = np.where(capacity > EMULATED_L2_BYTES, streaming, inside)
    return np.asarray(np.where(capacity > EMULATED_LLC_BYTES, misses[2] * homeless, inside))
