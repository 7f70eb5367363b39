"""A program's measured work.

``Work`` holds counts of operations, bytes and cache misses: the quantities that a platform's peak
rates limit. A counter that the pilot run could not measure is None in the profile; this module
derives it from other counters where possible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from berth.pilot.catalogue import REQUIRED
from berth.pilot.errors import UsageError
from berth.pilot.profile import Profile

LINE_BYTES = 64
"""Cache line size in bytes, as emulated; true of all x86-64 machines and of most Arm machines."""
WORD_BYTES = 8
"""Bytes assumed per load or store where only the number of accesses was counted."""
EMULATED_L1_BYTES = 32 * 2**10
"""Capacity of the L1 data cache that ``l1_*_misses`` refer to (emulated, or of a typical core)."""
EMULATED_L2_BYTES = 2**20
"""Capacity of the L2 cache that ``l2_*_misses`` refer to."""
EMULATED_LLC_BYTES = 32 * 2**20
"""Capacity of the last-level cache that ``llc_*_misses`` refer to."""

CONTENDED_MISS_RATE = 0.01
"""L1 misses per atomic update below which all updates are taken to go to a few addresses.

Updates that stream through memory miss at least once per cache line of eight words.
"""

FEW_STORES = 500.0
"""Stores per parallel region below which a region may only reduce its data to a few values."""

REDUCED_SHARE = 0.01
"""Share of stores among instructions below which such a region is a reduction.

Loops that write an array store at least once in 100 instructions, also where they are short.
"""

Levels = tuple[float, float, float]
"""Misses of the first-, second- and last-level cache, in this order."""

COUNTS = (
    "loads", "stores", "access_bytes", "store_bytes", "flops_f64", "flops_f32", "int_ops",
    "branches", "mispredicts",
)  # fmt: skip
"""Fields of ``Work`` that are proportional to the number of instructions."""


@dataclass(frozen=True, slots=True)
class Work:
    """Operation counts, bytes and cache misses of one complete run of a program."""

    instructions: float
    loads: float
    stores: float
    access_bytes: float
    """Bytes requested by loads and stores, before any cache."""
    store_bytes: float
    """Bytes that stores requested."""
    flops_f64: float
    flops_f32: float
    int_ops: float
    branches: float
    mispredicts: float
    """Number of mispredicted branches."""
    read_misses: Levels
    write_misses: Levels
    footprint_bytes: float
    regions: float | None
    """Parallel loops started (a GPU version would start as many kernels); None: unknown."""
    atomics: float | None
    """Number of atomic updates; None: unknown."""
    complete: bool
    """False if only a part of the run was counted: the totals are then known up to a common factor.
    """

    @property
    def accesses(self) -> float:
        """Return the number of loads and stores together."""
        return self.loads + self.stores

    @property
    def misses(self) -> Levels:
        """Return read misses plus write misses, by cache level."""
        (a, b, c), (x, y, z) = self.read_misses, self.write_misses
        return (a + x, b + y, c + z)

    @property
    def written_lines(self) -> Levels:
        """Return the number of cache lines written back from each cache level.

        Lines are written back if a write missed them, or if a read fetched them and a later store
        changed them; the stored bytes limit the number of the latter.
        """
        filled = self.store_bytes / LINE_BYTES
        near, middle, far = (
            max(write, min(filled, read + write))
            for read, write in zip(self.read_misses, self.write_misses, strict=True)
        )
        return (near, middle, far)

    @property
    def reductions(self) -> float:
        """Return the number of parallel regions with almost no stores, such as sums over an
        array."""
        regions = self.regions or 0.0
        few = self.stores < min(FEW_STORES * regions, REDUCED_SHARE * self.instructions)
        return regions if few else 0.0

    @property
    def contended_atomics(self) -> float:
        """Return the number of atomic updates that queue because they go to a few addresses.

        0 where atomic updates are spread over memory or were not counted.
        """
        atomics = self.atomics or 0.0
        return atomics if self.misses[0] < CONTENDED_MISS_RATE * atomics else 0.0

    @property
    def scattered_atomics(self) -> float:
        """Return the number of atomic updates that go to many addresses, in any order."""
        return (self.atomics or 0.0) - self.contended_atomics

    @property
    def flops(self) -> float:
        """Return the floating-point operations of both precisions."""
        return self.flops_f64 + self.flops_f32

    def scaled(self, factor: float) -> Work:
        """Return the work of a run of the same program that takes ``factor`` times as long.

        Its memory footprint stays the same.
        """
        counts = {name: getattr(self, name) * factor for name in ("instructions", *COUNTS)}
        return replace(
            self,
            **counts,
            read_misses=_scaled(self.read_misses, factor),
            write_misses=_scaled(self.write_misses, factor),
            regions=None if self.regions is None else self.regions * factor,
            atomics=None if self.atomics is None else self.atomics * factor,
        )


def missing_counters(profile: Profile) -> list[str]:
    """Return the names of the counters that a roofline needs and the profile lacks."""
    return [name for name in REQUIRED if profile.value(name) is None]


def work_of(profile: Profile) -> Work:
    """Return a program's operations, bytes and cache misses, from the counters of its profile.

    Raises UsageError if required counters are missing (the message names them) or if no
    instructions were counted.
    """
    if absent := missing_counters(profile):
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
        # Some sources count only the sum. Assume double precision, which is slower.
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
        # A program without parallel regions does not show how many kernels a GPU build would start.
        regions=profile.value("parallel_regions") or profile.value("gpu_kernels") or None,
        atomics=profile.value("atomic_ops"),
        complete=all(counters[name].complete for name in REQUIRED),
    )


TYPICAL_PROGRAM = Work(
    instructions=1.0,
    loads=0.3,
    stores=0.12,
    access_bytes=3.2,
    store_bytes=1.0,
    flops_f64=0.1,
    flops_f32=0.0,
    int_ops=0.4,
    branches=0.15,
    mispredicts=0.003,
    read_misses=(0.015, 0.005, 0.001),
    write_misses=(0.004, 0.002, 0.0005),
    footprint_bytes=100e6,
    regions=None,
    atomics=None,
    complete=False,
)
"""Counts per instruction of a typical whole program on one core: they split the time of a program
without counters into time in memory and in the core where the number of cores changes."""


def missing_counters_sentence(profile: Profile) -> str | None:
    """Return what a profile lacks and how it is predicted without; None: it lacks nothing."""
    absent = missing_counters(profile)
    if not absent:
        return None
    return f"it has no {', no '.join(absent)}: predicted by its time, like a typical program"


def _levels(profile: Profile, kind: str) -> Levels:
    """Return the misses of loads or stores (``kind`` is ``load`` or ``store``) by cache level.

    A level without a counter gets the misses of the next level towards main memory.
    """
    far = profile.value(f"llc_{kind}_misses") or 0.0
    middle = max(far, profile.value(f"l2_{kind}_misses") or 0.0)
    near = max(middle, profile.value(f"l1_{kind}_misses") or 0.0)
    return (near, middle, far)


def _scaled(levels: Levels, factor: float) -> Levels:
    near, middle, far = levels
    return (near * factor, middle * factor, far * factor)
