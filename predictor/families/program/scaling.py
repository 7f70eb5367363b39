"""How a program's time falls with cores: what it was seen to do, or what it says of itself.

With two or more measured thread counts, Amdahl's law ``t(c) = t(1) (s + (1 - s) / c)`` is fitted
(``s``: the serial share). A program that was not run with counts of its user's choice keeps the
cores that it declared and gains nothing from more; its serial share is then what its run on one
thread says, else what its processor time says: one that kept 1.3 of 2 cores busy computed on one of
them for half of its time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.arrays import Floats

MOST_SERIAL = 2.0
"""Threads that wait by computing take up to so many times what they would save."""


@dataclass(frozen=True, slots=True)
class ThreadScaling:
    """The serial share of the program's time and how many cores it can use."""

    serial_share: float
    """Of its time on one core; above 1, up to ``MOST_SERIAL``, where threads are in each other's
    way."""
    most_cores: float
    """More than these do nothing; infinity where the law was fitted."""
    measured: bool
    """With counts of its user's choice."""

    @classmethod
    def of(cls, profile: Profile, reference: Platform | None = None) -> ThreadScaling:
        """From the profile's scaling points, else from its declared threads and ranks.

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
        """The cores among ``cores`` that the program can use."""
        return np.minimum(cores, self.most_cores)

    def stretch(self, cores: Floats) -> Floats:
        """Factor on perfectly parallel time: 1 on one core, up to ``cores`` if all is serial."""
        return (1 - self.serial_share) + self.serial_share * cores


def _serial_by_ratio(ratio: float, declared: int, reference: Platform | None) -> float:
    """The serial share from the time on ``declared`` threads over that on one, both measured.

    Under a quota of processor time one thread may take what several leave.
    """
    cores = declared if reference is None else min(declared, reference.cores)
    if cores < 2:
        return 0.0
    together = cores * _share(reference)
    found = (ratio * together / min(1.0, together) - 1) / (cores - 1)
    return min(max(found, 0.0), MOST_SERIAL)


def run_s(profile: Profile) -> float | None:
    """Run time less what it waited for a processor, in seconds; None where nothing is known."""
    if profile.runtime is None:
        return None
    took = profile.runtime.median_s - (profile.value("run_queue_s") or 0.0)
    return took if took > 0 else None


def busy_cores(profile: Profile, reference: Platform | None) -> float | None:
    """How many of the cores that it had the run kept busy, on average; None where nobody knows."""
    spent, took = profile.value("cpu_time_s"), run_s(profile)
    return None if spent is None or took is None else spent / (took * _share(reference))


def _share(reference: Platform | None) -> float:
    """Of its cores' time that a place gives."""
    return 1.0 if reference is None else reference.signature.processor_share or 1.0


def _seen_serial(profile: Profile, declared: int, reference: Platform | None) -> float:
    """The serial share for which ``declared`` cores are busy as long as they were.

    0 where nobody measured it. Threads that wait by computing count as busy, as they are.
    """
    kept = busy_cores(profile, reference)
    cores = declared if reference is None else min(declared, reference.cores)
    if cores < 2 or not kept:
        return 0.0
    busy = min(max(kept, 1.0), float(cores))
    return (1 / busy - 1 / cores) / (1 - 1 / cores)


def _amdahl(points: dict[int, float]) -> float:
    """Least squares for the serial share; t(1) is eliminated in closed form."""
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
