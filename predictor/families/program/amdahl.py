"""How a program's run time falls with more cores, by Amdahl's law.

With two or more measured thread counts, ``t(c) = t(1) (s + (1 - s) / c)`` is fitted, where

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
from dataclasses import dataclass

import numpy as np

from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.arrays import Floats

MOST_SERIAL = 2.0
"""Upper limit of the serial share; above 1, busy-waiting threads cost more time than they save."""

HELPERS = 0.1
"""Processor time per second of run time that helper threads spend beside a program's own."""


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
        declared = cores_used(profile, reference)
        points = {p.threads: p.runtime_s for p in profile.scaling}
        took = run_s(profile)
        if took is not None and declared in points:
            # The main run is the median of several; a sweep's one run may have been disturbed.
            points[declared] = min(points[declared], took)
        if len(points) >= 2:
            return cls(_amdahl(points, most_speedup), math.inf, measured=True)
        share = _unfitted(profile, declared, took, reference, most_speedup)
        return cls(share, float(declared), measured=False)

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


def _unfitted(
    profile: Profile,
    declared: int,
    took: float | None,
    reference: Platform | None,
    most_speedup: Callable[[int], float],
) -> float:
    """Return the serial share from the run on ``declared`` threads, which ``took`` so many seconds,
    and its time on one thread, or else how many cores it kept busy; 0 where neither is known.

    Under a quota of processor time, one thread may also use the time that idle threads leave.
    Threads that busy-wait count as busy.
    """
    cores = declared if reference is None else min(declared, reference.cores)
    busy = busy_cores(profile, reference)
    if reference is not None and cores < declared and profile.one_thread_s is None:
        alone = _busy_side_by_side(profile, reference)
        busy, cores = (busy, cores) if alone is None else (alone, declared)
    if cores < 2:
        return 0.0
    if took is not None and profile.one_thread_s is not None:
        together = cores * _processor_share(reference)
        ideal = 1 / most_speedup(cores)
        measured = took / profile.one_thread_s * together / min(1.0, together) / cores
    elif busy:
        ideal, measured = 1 / cores, 1 / min(max(busy, 1.0), float(cores))
    else:
        return 0.0
    share = (measured - ideal) / (1 - ideal) if ideal < 1 else 0.0
    return min(max(share, 0.0), MOST_SERIAL)


def cores_used(profile: Profile, reference: Platform | None) -> int:
    """Return how many cores a run used: its threads and ranks, or where it has only one of each
    those that processes side by side kept busy, which shows in the processor time."""
    declared = profile.runs_on.threads * profile.runs_on.ranks
    if declared > 1:
        return declared
    return max(declared, math.ceil((busy_cores(profile, reference) or 0.0) - HELPERS))


def least_cores(profile: Profile) -> int:
    """Return the fewest cores on which a program is known to run: those of its threads, unless it
    ran with fewer or starts as many as it is given."""
    if profile.one_thread_s is not None or profile.runs_on.follows_shape:
        return 1
    return min([profile.runs_on.threads, *(point.threads for point in profile.scaling)])


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


def _busy_side_by_side(profile: Profile, reference: Platform) -> float | None:
    """Return how many cores threads that shared fewer would keep busy on average, each on its own:
    without their waits for each other. None: how long they waited is not known."""
    spent, waited_s = profile.value("cpu_time_s"), profile.value("run_queue_s")
    if spent is None or waited_s is None or profile.runtime is None:
        return None
    took = profile.runtime.median_s - waited_s
    taken_off = profile.runtime.noise is not None and profile.runs_on.threads <= reference.cores
    return None if taken_off or took <= 0 else spent / (took * _processor_share(reference))


def _amdahl(points: dict[int, float], most_speedup: Callable[[int], float]) -> float:
    """Return Amdahl's serial share, fitted to run times in seconds by number of threads.

    The parallel share speeds up by ``most_speedup`` of the number of threads.

    Least squares of relative errors.
    """
    threads = sorted(points)
    shapes = np.array([[1.0, 1.0 / most_speedup(n)] for n in threads])
    times = np.array([points[n] for n in threads])
    solved, *_ = np.linalg.lstsq(shapes / times[:, None], np.ones(len(threads)), rcond=None)
    serial, parallel = np.maximum(solved, 0.0)
    return float(serial / (serial + parallel))
