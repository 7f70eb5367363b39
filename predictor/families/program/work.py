"""What a Profile says a program does: its work, and how its time falls with cores.

The work is in the terms that a machine's ceilings are in. A counter that the pilot could not
measure stays None; what may be derived from another one is derived here.

Thread scaling: with two or more measured thread counts, Amdahl's law
``t(c) = t(1) (s + (1 - s) / c)`` is fitted (``s``: the serial share). A program that was not run
with counts of its user's choice keeps the cores that it declared and gains nothing from more; its
serial share is then what its run on one thread says, else what its processor time says: one that
kept 1.3 of 2 cores busy computed on one of them for half of its time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from berth.pilot.catalogue import REQUIRED
from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.arrays import Floats

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

COUNTS = (
    "loads", "stores", "access_bytes", "store_bytes", "flops_f64", "flops_f32", "int_ops",
    "branches", "mispredicts",
)  # fmt: skip
"""Fields of ``Work`` that grow with its instructions."""


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
        """Return loads and stores."""
        return self.loads + self.stores

    @property
    def misses(self) -> Levels:
        """Read and write misses by level."""
        (a, b, c), (x, y, z) = self.read_misses, self.write_misses
        return (a + x, b + y, c + z)

    @property
    def written_lines(self) -> Levels:
        """Return lines written back from each level: those that a write missed, and fetched ones
        that a store then changed, of which there are at most as many as the stores' bytes fill."""
        filled = self.store_bytes / LINE_BYTES
        near, middle, far = (
            max(write, min(filled, read + write))
            for read, write in zip(self.read_misses, self.write_misses, strict=True)
        )
        return (near, middle, far)

    @property
    def reductions(self) -> float:
        """Return the regions that hardly store anything: what they leave is a result in
        registers."""
        regions = self.regions or 0.0
        return regions if self.stores < FEW_STORES * regions else 0.0

    @property
    def contended_atomics(self) -> float:
        """Return the atomic updates to so few addresses that they queue up; 0 where unknown."""
        atomics = self.atomics or 0.0
        return atomics if self.misses[0] < CONTENDED_MISS_RATE * atomics else 0.0

    @property
    def flops(self) -> float:
        """Return floating-point operations of both precisions."""
        return self.flops_f64 + self.flops_f32

    def scaled(self, factor: float) -> Work:
        """Return the same program running ``factor`` times as long over the same memory."""
        counts = {name: getattr(self, name) * factor for name in ("instructions", *COUNTS)}
        return replace(
            self,
            **counts,
            read_misses=_scaled(self.read_misses, factor),
            write_misses=_scaled(self.write_misses, factor),
            regions=None if self.regions is None else self.regions * factor,
            atomics=None if self.atomics is None else self.atomics * factor,
        )


def work_of(profile: Profile) -> Work:
    """Return the work that ``profile`` measured.

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
    """Return the misses of loads or stores by level; an unknown one is that of the level behind
    it."""
    far = profile.value(f"llc_{kind}_misses") or 0.0
    middle = max(far, profile.value(f"l2_{kind}_misses") or 0.0)
    near = max(middle, profile.value(f"l1_{kind}_misses") or 0.0)
    return (near, middle, far)


def _scaled(levels: Levels, factor: float) -> Levels:
    near, middle, far = levels
    return (near * factor, middle * factor, far * factor)


MOST_SERIAL = 2.0
"""Threads that wait by computing take up to so many times what they would save."""


@dataclass(frozen=True, slots=True)
class ThreadScaling:
    """The serial share of the program's time and how many cores it can use."""

    serial_share: float
    """Share of its time on one core; above 1, up to ``MOST_SERIAL``, where threads are in each
    other's way."""
    most_cores: float
    """More than these do nothing; infinity where Amdahl's law was fitted."""
    measured: bool
    """Whether it ran with counts of its user's choice."""

    @classmethod
    def of(cls, profile: Profile, reference: Platform | None = None) -> ThreadScaling:
        """Read it from the profile's scaling points, else from its declared threads and ranks.

        ``reference`` is the platform that it was measured on; None: a node that gave it all of
        the time of at least as many cores as it declares.
        """
        declared = profile.runs_on.threads * profile.runs_on.ranks
        points = {p.threads: p.runtime_s for p in profile.scaling}
        if len(points) < 2:
            took = run_s(profile)
            if took is not None and profile.one_thread_s is not None:
                share = _serial_by_ratio(took / profile.one_thread_s, declared, reference)
            else:
                share = _seen_serial(profile, declared, reference)
            return cls(share, float(declared), measured=False)
        return cls(_amdahl(points), math.inf, measured=True)

    def usable(self, cores: Floats) -> Floats:
        """Return the cores among ``cores`` that the program can use."""
        return np.minimum(cores, self.most_cores)

    def stretch(self, cores: Floats) -> Floats:
        """Return the factor on perfectly parallel time: 1 on one core, up to ``cores`` if all is
        serial."""
        return (1 - self.serial_share) + self.serial_share * cores


def _serial_by_ratio(ratio: float, declared: int, reference: Platform | None) -> float:
    """Return the serial share from the time on ``declared`` threads over that on one, both
    measured.

    Under a quota of processor time one thread may take what several leave.
    """
    cores = declared if reference is None else min(declared, reference.cores)
    if cores < 2:
        return 0.0
    together = cores * _processor_share(reference)
    serial_share = (ratio * together / min(1.0, together) - 1) / (cores - 1)
    return min(max(serial_share, 0.0), MOST_SERIAL)


def run_s(profile: Profile) -> float | None:
    """Return the run time less what it waited for a processor, in seconds; None where nothing is
    known."""
    if profile.runtime is None:
        return None
    took = profile.runtime.median_s - (profile.value("run_queue_s") or 0.0)
    return took if took > 0 else None


def busy_cores(profile: Profile, reference: Platform | None) -> float | None:
    """Return how many of the cores that it had the run kept busy, on average; None where nobody
    knows."""
    spent, took = profile.value("cpu_time_s"), run_s(profile)
    return None if spent is None or took is None else spent / (took * _processor_share(reference))


def _processor_share(reference: Platform | None) -> float:
    """Return the share of its cores' time that a place gives."""
    return 1.0 if reference is None else reference.signature.processor_share or 1.0


def _seen_serial(profile: Profile, declared: int, reference: Platform | None) -> float:
    """Return the serial share for which ``declared`` cores are busy as long as they were.

    0 where nobody measured it. Threads that wait by computing count as busy, as they are.
    """
    busy_on_average = busy_cores(profile, reference)
    cores = declared if reference is None else min(declared, reference.cores)
    if cores < 2 or not busy_on_average:
        return 0.0
    busy = min(max(busy_on_average, 1.0), float(cores))
    return (1 / busy - 1 / cores) / (1 - 1 / cores)


def _amdahl(points: dict[int, float]) -> float:
    """Fit the serial share by least squares; t(1) is eliminated in closed form."""
    threads = np.array(sorted(points), dtype=np.float64)
    times = np.array([points[int(n)] for n in threads])
    best, best_error = 0.0, math.inf
    for share in np.linspace(0.0, 1.0, 201):
        shape = share + (1 - share) / threads
        logs = np.log(times) - np.log(shape)
        error = float(((logs - logs.mean()) ** 2).sum())
        if error < best_error - 1e-12:
            best, best_error = float(share), error
    return best
