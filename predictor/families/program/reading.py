"""A profile as the estimator needs it: its work, thread scaling and roofline times at the points of
a table of peak rates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from berth.pilot.profile import Profile
from berth.predictor.core.arrays import Floats
from berth.predictor.families.program.amdahl import ThreadScaling
from berth.predictor.families.program.features import work_features
from berth.predictor.families.program.roofline import RooflineTimes, thread_scaling, times
from berth.predictor.families.program.work import (
    TYPICAL_PROGRAM,
    Work,
    missing_counters,
    work_of,
)
from berth.predictor.hardware.ceilings import Allocation, Ceilings


@dataclass(frozen=True, slots=True)
class RateTable:
    """A table of peak rates: requested platforms first, then the reference, then the bundle's
    platforms.

    Each row is a platform with a number of cores or GPUs (a point).
    """

    table: Ceilings
    count: int
    """Number of requested points, which are the first rows of the table."""
    reference: int
    """Table row of the platform that the profile was measured on, with the cores of that run."""
    reference_core: int
    """Table row of one core of that platform."""
    assumed: bool
    """Whether that platform is unknown, so that one of the bundle's is taken in its place."""
    labelled: dict[str, int]
    """Table row by labelled platform, at the core count of its measured times."""
    at_home: frozenset[str]
    """Names of the requested platforms with the hardware that the profile was measured on."""
    labels_of: dict[str, str]
    """Name of the labelled platform with the same hardware, by requested platform."""
    home: str
    """Name of the platform that the profile was measured on, or of the labelled platform with its
    hardware."""
    one_core: dict[str, int]
    """Table row of one core, by name of each requested CPU platform."""

    def is_between_cpus(self, point: Allocation) -> bool:
        return not point.gpus and not self.table.points[self.reference].gpus


@dataclass(frozen=True, slots=True)
class ProgramReading:
    """A profile with its work, thread scaling and roofline times, as the estimator needs it."""

    profile: Profile
    work: Work
    scaling: ThreadScaling
    runtime_s: float
    """Measured run time in seconds, to which predictions are relative."""
    roofs: RooflineTimes
    log_roofs: Floats
    log_efficiency: float
    """Log of the measured time on the reference over the roofline time there."""
    counted: bool = True
    """False: the work is that of a typical program, only the time is this program's."""
    mispredicts: float | None = None
    """Mispredicted branches per instruction; None: not counted."""

    @property
    def work_features(self) -> Floats:
        """Return the ``WORK_FEATURES`` of the program, which the range check compares with
        training."""
        return np.array(work_features(self.work, self.scaling))


def read(profile: Profile, runtime_s: float, layout: RateTable, typical: float) -> ProgramReading:
    """Return a profile with its work and with roofline times on all platforms of ``layout``.

    ``runtime_s`` is the measured time in seconds. If the counters cover only a part of the run,
    they are scaled to the whole run: the program then has the efficiency ``exp(typical)``, the
    training set's mean. A profile without the required counters is read as a typical program of
    its time.
    """
    home = None if layout.assumed else layout.table.points[layout.reference].platform
    counted = not missing_counters(profile)
    work = work_of(profile) if counted else TYPICAL_PROGRAM
    scaling = thread_scaling(profile, work, home)
    roofs = times(work, layout.table, scaling)
    if not work.complete:
        wanted = math.exp(math.log(runtime_s) - typical)
        work = work.scaled(wanted / float(roofs.total[layout.reference]))
        roofs = times(work, layout.table, scaling)
    logs = np.log(roofs.total)
    efficiency = math.log(runtime_s) - float(logs[layout.reference])
    mispredicts = mispredicts_per_instruction(profile)
    return ProgramReading(
        profile, work, scaling, runtime_s, roofs, logs, efficiency, counted, mispredicts
    )


def mispredicts_per_instruction(profile: Profile) -> float | None:
    """Return the mispredicted branches per instruction of a profile; None: not counted."""
    instructions, mispredicts = profile.value("instructions"), profile.value("branch_misses")
    return mispredicts / instructions if instructions and mispredicts is not None else None
