"""The work that a Profile measured, and how the program's run time falls with more cores.

``Work`` counts operations, bytes and cache misses: the quantities that a machine's ceilings limit.
A counter that the pilot could not measure is None in the profile; this module derives the missing
value from other counters where that is possible.

Thread scaling: with two or more measured thread counts, Amdahl's law ``t(c) = t(1) (s + (1 - s) /
c)`` is fitted (``c``: cores; ``t``: run time in seconds; ``s``: the serial share). A program
without such measurements is predicted to use the cores that it declared and to gain nothing from
more. Its serial share then comes from its run on one thread or, without such a run, from its
processor time: a program that kept 1.3 of 2 cores busy on average used only one core for half of
its time.
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
"""Cache line size of the emulated caches, of every x86-64 machine and of most Arm machines."""
WORD_BYTES = 8
EMULATED_L1_BYTES = 32 * 2**10
"""Capacity of the first-level data cache that ``l1_*_misses`` are counted for (emulated, or that of
a typical core).
"""
EMULATED_L2_BYTES = 2**20
EMULATED_LLC_BYTES = 32 * 2**20
"""Capacities of the second- and last-level caches that ``l2_*`` and ``llc_*_misses`` are counted
for.
"""

CONTENDED_MISS_RATE = 0.01
"""Atomic updates with a lower first-level miss rate all go to a few addresses: updates that stream
through memory would miss at least once for each cache line of eight words.
"""

FEW_STORES = 500.0
"""A parallel region with fewer stores than this only reduces its data to a few values."""

Levels = tuple[float, float, float]
"""Misses of the first-, second- and last-level cache, in this order."""

COUNTS = (
    "loads", "stores", "access_bytes", "store_bytes", "flops_f64", "flops_f32", "int_ops",
    "branches", "mispredicts",
)  # fmt: skip
"""Fields of ``Work`` that grow in proportion to the instructions."""


@dataclass(frozen=True, slots=True)
class Work:
    """Totals of one complete run: counts, or bytes where the field's name says so."""

    instructions: float
    loads: float
    stores: float
    access_bytes: float
    """Bytes that loads and stores requested, before any cache."""
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
    """Number of parallel loops started (a GPU build would start as many kernels); None: unknown."""
    atomics: float | None
    """Number of atomic updates; None: unknown."""
    complete: bool
    """False: only a part of the run was counted, so the totals are known up to a common factor."""

    @property
    def accesses(self) -> float:
        """Return the number of loads and stores together."""
        return self.loads + self.stores

    @property
    def misses(self) -> Levels:
        """Return the read and write misses together, by cache level."""
        (a, b, c), (x, y, z) = self.read_misses, self.write_misses
        return (a + x, b + y, c + z)

    @property
    def written_lines(self) -> Levels:
        """Return the cache lines written back from each level.

        These are the lines that a write missed, plus lines fetched by reads and changed by stores
        later; there are at most as many of the latter as the stored bytes fill.
        """
        filled = self.store_bytes / LINE_BYTES
        near, middle, far = (
            max(write, min(filled, read + write))
            for read, write in zip(self.read_misses, self.write_misses, strict=True)
        )
        return (near, middle, far)

    @property
    def reductions(self) -> float:
        """Return the number of regions that store almost nothing: their result stays in
        registers."""
        regions = self.regions or 0.0
        return regions if self.stores < FEW_STORES * regions else 0.0

    @property
    def contended_atomics(self) -> float:
        """Return the number of atomic updates to so few addresses that the updates queue up; 0:
        unknown.
        """
        atomics = self.atomics or 0.0
        return atomics if self.misses[0] < CONTENDED_MISS_RATE * atomics else 0.0

    @property
    def flops(self) -> float:
        """Return the floating-point operations of both precisions."""
        return self.flops_f64 + self.flops_f32

    def scaled(self, factor: float) -> Work:
        """Return the work of the same program running ``factor`` times as long over the same
        memory.
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


def work_of(profile: Profile) -> Work:
    """Return the work that ``profile`` measured.

    Raises UsageError if required counters are missing (the message names them) or if no
    instructions were counted.
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


def _levels(profile: Profile, kind: str) -> Levels:
    """Return the misses of loads or stores (``kind``) by level.

    An unknown level gets the misses of the next level, farther from the core.
    """
    far = profile.value(f"llc_{kind}_misses") or 0.0
    middle = max(far, profile.value(f"l2_{kind}_misses") or 0.0)
    near = max(middle, profile.value(f"l1_{kind}_misses") or 0.0)
    return (near, middle, far)


def _scaled(levels: Levels, factor: float) -> Levels:
    near, middle, far = levels
    return (near * factor, middle * factor, far * factor)


MOST_SERIAL = 2.0
"""Upper limit of the serial share: threads that busy-wait can take more time than they save."""


@dataclass(frozen=True, slots=True)
class ThreadScaling:
    """The serial share of the program's time, and the number of cores that the program can use."""

    serial_share: float
    """Share of the one-core run time that does not get faster with cores. Values above 1, up to
    ``MOST_SERIAL``, mean that the threads slow each other down.
    """
    most_cores: float
    """Cores beyond this number do not help; infinity where Amdahl's law was fitted."""
    measured: bool
    """Whether the program was run with several thread counts that its user chose."""

    @classmethod
    def of(cls, profile: Profile, reference: Platform | None = None) -> ThreadScaling:
        """Return the thread scaling from the profile's scaling points, else from its declared
        threads and ranks.

        ``reference`` is the platform that the profile was measured on; None: assume a node that
        gave the program the full time of at least as many cores as it declares.
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
        """Return ``cores``, limited to the number of cores that the program can use."""
        return np.minimum(cores, self.most_cores)

    def stretch(self, cores: Floats) -> Floats:
        """Return the run time on ``cores`` cores as a factor of the perfectly parallel time.

        The factor is 1 for a program without a serial share, and ``cores`` for a fully serial one.
        """
        return (1 - self.serial_share) + self.serial_share * cores


def _serial_by_ratio(ratio: float, declared: int, reference: Platform | None) -> float:
    """Return the serial share from ``ratio``: the time on ``declared`` threads over the time on one
    thread, both measured.

    Under a quota of processor time, one thread may use the time that idle threads do not use.
    """
    cores = declared if reference is None else min(declared, reference.cores)
    if cores < 2:
        return 0.0
    together = cores * _processor_share(reference)
    serial_share = (ratio * together / min(1.0, together) - 1) / (cores - 1)
    return min(max(serial_share, 0.0), MOST_SERIAL)


def run_s(profile: Profile) -> float | None:
    """Return the run time in seconds, without the time spent waiting for a processor; None:
    unknown.
    """
    if profile.runtime is None:
        return None
    took = profile.runtime.median_s - (profile.value("run_queue_s") or 0.0)
    return took if took > 0 else None


def busy_cores(profile: Profile, reference: Platform | None) -> float | None:
    """Return how many of its cores the run kept busy on average; None: unknown."""
    spent, took = profile.value("cpu_time_s"), run_s(profile)
    return None if spent is None or took is None else spent / (took * _processor_share(reference))


def _processor_share(reference: Platform | None) -> float:
    """Return the share of its cores' time that the platform grants (1 without a quota)."""
    return 1.0 if reference is None else reference.signature.processor_share or 1.0


def _seen_serial(profile: Profile, declared: int, reference: Platform | None) -> float:
    """Return the serial share that explains the measured average of busy cores out of ``declared``.

    0 where that average was not measured. Threads that busy-wait count as busy.
    """
    busy_on_average = busy_cores(profile, reference)
    cores = declared if reference is None else min(declared, reference.cores)
    if cores < 2 or not busy_on_average:
        return 0.0
    busy = min(max(busy_on_average, 1.0), float(cores))
    return (1 / busy - 1 / cores) / (1 - 1 / cores)


def _amdahl(points: dict[int, float]) -> float:
    """Return the serial share fitted by least squares in log time; t(1) is eliminated in closed
    form.
    """
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
