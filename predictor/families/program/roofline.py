"""The roofline prior: how long a program's work takes under a platform's ceilings.

Time is the largest of what the floating-point units, the instruction front end and each level
of the memory hierarchy need (they overlap), plus what cannot overlap: mispredicted branches,
starting parallel regions or GPU kernels, and contended atomic updates. Traffic at a cache
capacity that nobody counted is interpolated between those that were, and vanishes where the
footprint fits. For a GPU this is the time of an *equivalent* GPU build of the program.
Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009; the hierarchical form by
Ilic, Pratas, Sousa, CAL 13(1), 2014.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.core.prediction import Bound
from berth.predictor.families.program.work import (
    EMULATED_L1_BYTES,
    EMULATED_L2_BYTES,
    EMULATED_LLC_BYTES,
    LINE_BYTES,
    Levels,
    ThreadScaling,
    Work,
)
from berth.predictor.hardware.ceilings import Ceilings

# The first-level cache belongs to the core: what waits for it would not run faster elsewhere.
_BOUNDS = (Bound.COMPUTE, Bound.COMPUTE, Bound.COMPUTE, Bound.MEMORY, Bound.MEMORY, Bound.MEMORY)
_TINY_S = 1e-12
FITS = 3.0
"""Multiple of the emulated last level up to which what that one keeps is a part of one sweep over
all of the footprint, and tells nothing of a smaller cache."""
LEAST_TRAFFIC = 0.02
"""Share of the last-level misses that stays where all of the footprint fits."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds by component over the points of a ceiling table."""

    flops: Floats
    instructions: Floats
    l1: Floats
    l2: Floats
    l3: Floats
    dram: Floats
    branches: Floats
    launches: Floats
    atomics: Floats
    serial: Floats
    """Seconds that the program's own serial share adds over perfect scaling."""
    fixed: Floats
    """Launches and atomics: known apart from how well the rest runs."""
    parallel: Floats
    """All the rest."""
    reductions: Floats
    """Regions whose results a GPU must combine and fetch; 0 on CPUs."""
    total: Floats

    def bound(self, index: int) -> Bound:
        """Return what takes longest at one point."""
        overlapping = [
            float(a[index])
            for a in (self.flops, self.instructions, self.l1, self.l2, self.l3, self.dram)
        ]
        largest = max(range(len(overlapping)), key=overlapping.__getitem__)
        candidates = [
            (overlapping[largest], _BOUNDS[largest]),
            (float(self.branches[index]), Bound.LATENCY),
            (float(self.atomics[index]), Bound.LATENCY),
            (float(self.launches[index]), Bound.LAUNCH),
            (float(self.serial[index]), Bound.SERIAL),
        ]
        return max(candidates, key=lambda pair: pair[0])[1]


def times(work: Work, ceilings: Ceilings, scaling: ThreadScaling) -> Times:
    """Return seconds for ``work`` at every point, absolute (nothing anchored on a measurement)."""
    gpu = ceilings.is_gpu
    cores = scaling.usable(ceilings.units)
    # Rates in the table are for all units in use; idle cores give theirs back.
    used = np.where(gpu, 1.0, cores / ceilings.units)
    flops = (work.flops_f64 / ceilings.flops_f64 + work.flops_f32 / ceilings.flops_f32) / used
    instructions = work.instructions / ceilings.instructions / used
    l1 = work.access_bytes / ceilings.l1_bytes / used
    l2 = traffic_bytes(work, ceilings.l1_capacity, ceilings.fetch_writes) / ceilings.l2_bytes / used
    l3 = traffic_bytes(work, ceilings.l2_capacity, ceilings.fetch_writes) / ceilings.l3_bytes / used
    dram = traffic_bytes(work, ceilings.l3_capacity, ceilings.fetch_writes) / ceilings.dram_bytes
    branches = work.mispredicts / ceilings.mispredicts / used
    launches = (work.regions or 0.0) * ceilings.fork_s
    atomics = work.contended_atomics / ceilings.atomics
    overlapping = np.maximum.reduce([flops, instructions, l1, l2, l3, dram]) + branches
    serial = np.where(gpu, 0.0, overlapping * (scaling.stretch(cores) - 1))
    fixed, parallel = launches + atomics, overlapping + serial + _TINY_S
    return Times(
        flops=flops,
        instructions=instructions,
        l1=l1,
        l2=l2,
        l3=l3,
        dram=dram,
        branches=branches,
        launches=launches,
        atomics=atomics,
        serial=serial,
        fixed=fixed,
        parallel=parallel,
        reductions=np.where(gpu, work.reductions, 0.0),
        total=fixed + parallel,
    )


def traffic_bytes(work: Work, capacity: Floats, fetch_writes: Floats) -> Floats:
    """Return the bytes that a cache of ``capacity`` exchanges with what lies behind it.

    Missed reads, lines written back, and (``fetch_writes`` is 1, as on CPUs) lines that a missed
    write fetches first. Between the emulated capacities misses fall with the logarithm of the
    capacity; but as long as what the program touches is larger than the cache, streams through it
    miss as they do in a small one, and once it fits next to nothing is missed.
    """
    reads, writes, back = (
        _missed(levels, capacity, work.footprint_bytes)
        for levels in (work.read_misses, work.write_misses, work.written_lines)
    )
    moved = LINE_BYTES * (reads + fetch_writes * writes + back)
    # Neighbouring GPU threads use a line's words together: no level moves more than was asked for.
    return np.asarray(np.where(fetch_writes > 0, moved, np.minimum(moved, work.access_bytes)))


def _missed(misses: Levels, capacity: Floats, footprint: float) -> Floats:
    known = np.log((EMULATED_L1_BYTES, EMULATED_L2_BYTES, EMULATED_LLC_BYTES))
    inside = np.interp(np.log(capacity), known, misses)
    # Share of the footprint that does not find room; half of the cache counts as taken at once.
    homeless = np.clip(2.0 - 2.0 * capacity / footprint, LEAST_TRAFFIC, 1.0)
    if footprint <= FITS * EMULATED_LLC_BYTES:
        streaming = misses[2] + (misses[1] - misses[2]) * homeless
        inside = np.where(capacity > EMULATED_L2_BYTES, streaming, inside)
    return np.asarray(np.where(capacity > EMULATED_LLC_BYTES, misses[2] * homeless, inside))
