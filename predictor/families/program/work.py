"""Work: what a Profile says a program does, in the terms that a machine's ceilings are in.

The only place in the predictor that knows the counters' catalogue names. A counter that the
pilot could not measure stays None; what may be derived from another one is derived here, and
``missing`` names what the roofline cannot do without.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from berth.pilot.catalogue import REQUIRED
from berth.pilot.errors import UsageError
from berth.pilot.profile import Profile

LINE_BYTES = 64
"""Cache line of the emulated caches and of every x86-64 and most Arm machines."""
WORD_BYTES = 8
EMULATED_L1_BYTES = 32 * 2**10
"""Capacity of the first-level data cache behind ``l1_*_misses`` (emulated or a usual core's)."""
EMULATED_L2_BYTES = 2**20
EMULATED_LLC_BYTES = 32 * 2**20
"""Capacities of the second- and last-level caches behind ``l2_*`` and ``llc_*_misses``."""

CONTENDED_MISS_RATE = 0.01
"""Updates that miss the first-level cache less often than this all go to a few addresses: a
stream of them would miss at least once for each line of eight words."""

FEW_STORES = 500.0
"""A region that stores less than this many times reduces its data to a few values."""

Levels = tuple[float, float, float]
"""Misses of the first-, second- and last-level cache."""


@dataclass(frozen=True, slots=True)
class Work:
    """Totals of one complete run. Counts, or bytes where the name says so."""

    instructions: float
    loads: float
    stores: float
    access_bytes: float
    """Bytes that loads and stores moved, before any cache."""
    store_bytes: float
    flops_f64: float
    flops_f32: float
    int_ops: float
    branches: float
    mispredicts: float
    read_misses: Levels
    write_misses: Levels
    footprint_bytes: float
    regions: float | None
    """Parallel loops started (kernels of an equivalent GPU build); None: unknown."""
    atomics: float | None
    """Atomic updates; None: unknown."""
    complete: bool
    """False: the counts are of a part of the run, known up to a common factor."""

    @property
    def accesses(self) -> float:
        """Loads and stores."""
        return self.loads + self.stores

    @property
    def misses(self) -> Levels:
        """Read and write misses by level."""
        (a, b, c), (x, y, z) = self.read_misses, self.write_misses
        return (a + x, b + y, c + z)

    @property
    def written_lines(self) -> Levels:
        """Lines written back from each level: those that a write missed, and fetched ones that a
        store then changed, of which there are at most as many as the stores' bytes fill."""
        filled = self.store_bytes / LINE_BYTES
        near, middle, far = (
            max(write, min(filled, read + write))
            for read, write in zip(self.read_misses, self.write_misses, strict=True)
        )
        return (near, middle, far)

    @property
    def reductions(self) -> float:
        """Regions that hardly store anything: what they leave is a result in registers."""
        regions = self.regions or 0.0
        return regions if self.stores < FEW_STORES * regions else 0.0

    @property
    def contended_atomics(self) -> float:
        """Atomic updates to so few addresses that they queue up; 0 where unknown."""
        atomics = self.atomics or 0.0
        return atomics if self.misses[0] < CONTENDED_MISS_RATE * atomics else 0.0

    @property
    def flops(self) -> float:
        """Floating-point operations of both precisions."""
        return self.flops_f64 + self.flops_f32

    def scaled(self, factor: float) -> Work:
        """The same program running ``factor`` times as long over the same memory."""
        return replace(
            self,
            instructions=self.instructions * factor,
            loads=self.loads * factor,
            stores=self.stores * factor,
            access_bytes=self.access_bytes * factor,
            store_bytes=self.store_bytes * factor,
            flops_f64=self.flops_f64 * factor,
            flops_f32=self.flops_f32 * factor,
            int_ops=self.int_ops * factor,
            branches=self.branches * factor,
            mispredicts=self.mispredicts * factor,
            read_misses=_scaled(self.read_misses, factor),
            write_misses=_scaled(self.write_misses, factor),
            regions=None if self.regions is None else self.regions * factor,
            atomics=None if self.atomics is None else self.atomics * factor,
        )


def work_of(profile: Profile) -> Work:
    """The work that ``profile`` measured.

    Raises UsageError naming the needed counters that it lacks, or counts that cannot be.
    """
    absent = [name for name in REQUIRED if profile.value(name) is None]
    if absent:
        raise UsageError(
            f"profile {profile.name!r} has no {', no '.join(absent)}",
            hint="pilot it again where these can be counted (hardware counters or valgrind)",
        )
    counters = profile.counters

    def total(*names: str) -> float:
        return sum(profile.value(name) or 0.0 for name in names)

    instructions, loads, stores = total("instructions"), total("loads"), total("stores")
    if instructions < 1:
        raise UsageError(f"profile {profile.name!r} counts no instructions: nothing ran")
    reads, writes = (_levels(profile, kind) for kind in ("load", "store"))
    fp64, fp32 = total("fp64_ops"), total("fp32_ops")
    if profile.value("fp64_ops") is None and profile.value("fp32_ops") is None:
        # Some sources count only the sum; double precision is the slower reading.
        fp64 = total("fp_ops")
    load_bytes = total("load_bytes") or WORD_BYTES * loads
    store_bytes = total("store_bytes") or WORD_BYTES * stores
    return Work(
        instructions=instructions,
        loads=loads,
        stores=stores,
        access_bytes=load_bytes + store_bytes,
        store_bytes=store_bytes,
        flops_f64=fp64,
        flops_f32=fp32,
        int_ops=total("int_ops"),
        branches=total("branches"),
        mispredicts=total("branch_misses"),
        read_misses=reads,
        write_misses=writes,
        footprint_bytes=profile.peak_memory_bytes or max(reads[2] + writes[2], 1.0) * LINE_BYTES,
        # A program without parallel regions says nothing of how many kernels it would start.
        regions=profile.value("parallel_regions") or profile.value("gpu_kernels") or None,
        atomics=profile.value("atomic_ops"),
        complete=all(counters[name].complete for name in REQUIRED),
    )


def _levels(profile: Profile, kind: str) -> Levels:
    """Misses of loads or stores by level; an unknown one is that of the level behind it."""
    far = profile.value(f"llc_{kind}_misses") or 0.0
    middle = max(far, profile.value(f"l2_{kind}_misses") or 0.0)
    near = max(middle, profile.value(f"l1_{kind}_misses") or 0.0)
    return (near, middle, far)


def _scaled(levels: Levels, factor: float) -> Levels:
    near, middle, far = levels
    return (near * factor, middle * factor, far * factor)
