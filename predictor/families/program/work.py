"""A program's measured work, and how its run time falls with more cores.

``Work`` holds counts of operations, bytes and cache misses: the quantities that a platform's peak
rates limit. A counter that the pilot run could not measure is None in the profile; this module
derives it from other counters where possible.

Thread scaling: with two or more measured thread counts, Amdahl's law is fitted, ``t(c) = t(1) (s +
(1 - s) / c)``, where

- ``c``: number of cores;
- ``t(c)``: run time on ``c`` cores (seconds, measured);
- ``s``: serial share (fitted).

With one thread count, the program is assumed to use the cores that it declared and to gain nothing
from more. Its serial share then comes from its run on one thread or, without such a run, from its
processor time: a program that kept 1.3 of 2 cores busy on average has a serial share of 0.54.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from berth.pilot.catalogue import REQUIRED
from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.arrays import Floats

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


MOST_SERIAL = 2.0
"""Upper limit of the serial share; above 1, busy-waiting threads cost more time than they save."""


@dataclass(frozen=True, slots=True)
class ThreadScaling:
    """A program's serial share, and the number of cores that the program can use."""

    serial_share: float
    """Share of the one-core run time that more cores do not shorten.

    Values above 1, up to ``MOST_SERIAL``, mean that the threads slow each other down.
    """
    most_cores: float
    """Number of cores beyond which more cores do not help; infinity where Amdahl's law was fitted.
    """
    measured: bool
    """Whether the serial share was fitted to runs with two or more thread counts."""

    @classmethod
    def of(
        cls,
        profile: Profile,
        reference: Platform | None = None,
        most_speedup: Callable[[int], float] = float,
    ) -> ThreadScaling:
        """Return a program's thread scaling, fitted to its runs or else derived from its main run.

        ``reference`` is the platform that the profile was measured on. None: assume a node without
        a processor quota that has at least as many cores as the program declares.
        ``most_speedup`` returns the speedup over one core that a number of cores gives the program
        at most, where memory bandwidth does not grow with the cores.
        """
        declared = profile.runs_on.threads * profile.runs_on.ranks
        points = {p.threads: p.runtime_s for p in profile.scaling}
        took = run_s(profile)
        if took is not None and declared in points:
            # The main run is the median of several; a sweep's one run may have been disturbed.
            points[declared] = min(points[declared], took)
        if len(points) < 2:
            if took is not None and profile.one_thread_s is not None:
                ratio = took / profile.one_thread_s
                share = _serial_by_ratio(ratio, declared, reference, most_speedup)
            else:
                share = _seen_serial(profile, declared, reference)
            return cls(share, float(declared), measured=False)
        return cls(_amdahl(points, most_speedup), math.inf, measured=True)

    def usable(self, cores: Floats) -> Floats:
        """Return ``cores``, limited to the number of cores that the program can use."""
        return np.minimum(cores, self.most_cores)

    def stretch(self, cores: Floats) -> Floats:
        """Return the run time on ``cores`` cores, divided by that of a program without a serial
        share, where nothing but the cores limits it.

        The factor is 1 for a fully parallel program and ``cores`` for a fully serial one.
        """
        return (1 - self.serial_share) + self.serial_share * cores

    def serial_s(self, one_core_s: Floats, parallel_s: Floats) -> Floats:
        """Return the seconds that the serial share adds to a program's time.

        ``one_core_s``: the time on one core; ``parallel_s``: the time without a serial share on the
        cores in use.
        """
        return np.asarray(self.serial_share * (one_core_s - parallel_s))


def _serial_by_ratio(
    ratio: float,
    declared: int,
    reference: Platform | None,
    most_speedup: Callable[[int], float],
) -> float:
    """Return the serial share from two run times: on ``declared`` threads and on one thread.

    ``ratio`` is the measured time on ``declared`` threads over that on one thread. Under a quota of
    processor time, one thread may also use the time that idle threads leave.
    """
    cores = declared if reference is None else min(declared, reference.cores)
    if cores < 2:
        return 0.0
    together = cores * _processor_share(reference)
    without_serial_share = 1 / most_speedup(cores)
    if without_serial_share >= 1:
        return 0.0
    measured = ratio * together / min(1.0, together) / cores
    serial_share = (measured - without_serial_share) / (1 - without_serial_share)
    return min(max(serial_share, 0.0), MOST_SERIAL)


def run_s(profile: Profile) -> float | None:
    """Return a profile's run time in seconds, minus waits for a processor (run queue); None:
    unknown."""
    if profile.runtime is None:
        return None
    took = profile.runtime.median_s
    if profile.runtime.noise is None:  # a pilot on a busy machine took the waits off already
        took -= profile.value("run_queue_s") or 0.0
    return took if took > 0 else None


def busy_cores(profile: Profile, reference: Platform | None) -> float | None:
    """Return how many cores the run kept busy on average; None: unknown.

    Under a quota of processor time, cores count in proportion to the granted share.
    """
    spent, took = profile.value("cpu_time_s"), run_s(profile)
    return None if spent is None or took is None else spent / (took * _processor_share(reference))


def _processor_share(reference: Platform | None) -> float:
    """Return the share of its cores' time that a platform's quota grants (1: no quota)."""
    return 1.0 if reference is None else reference.signature.processor_share or 1.0


def _seen_serial(profile: Profile, declared: int, reference: Platform | None) -> float:
    """Return the serial share that explains how many of the ``declared`` cores were busy on
    average.

    0 where processor time was not measured. Threads that busy-wait count as busy.
    """
    busy_on_average = busy_cores(profile, reference)
    cores = declared if reference is None else min(declared, reference.cores)
    if cores < 2 or not busy_on_average:
        return 0.0
    busy = min(max(busy_on_average, 1.0), float(cores))
    return (1 / busy - 1 / cores) / (1 - 1 / cores)


def _amdahl(points: dict[int, float], most_speedup: Callable[[int], float]) -> float:
    """Return Amdahl's serial share, fitted to run times in seconds by number of threads.

    The parallel share speeds up by ``most_speedup`` of the number of threads.

    Least squares in log time over a grid of shares; t(1) is eliminated in closed form.
    """
    threads = np.array(sorted(points), dtype=np.float64)
    times = np.array([points[int(n)] for n in threads])
    speedups = np.array([most_speedup(int(n)) for n in threads])
    best, best_error = 0.0, math.inf
    for share in np.linspace(0.0, 1.0, 201):
        shape = share + (1 - share) / speedups
        logs = np.log(times) - np.log(shape)
        error = float(((logs - logs.mean()) ** 2).sum())
        if error < best_error - 1e-12:
            best, best_error = float(share), error
    return best
