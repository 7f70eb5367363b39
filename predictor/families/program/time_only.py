"""Programs without counters: only their run time and memory are known.

From CPU to CPU such a program takes its own time, times the ratio of the cores' speeds
(``between_cpus``); between GPUs its own time times the ratio of their bandwidths. It is split into
time in memory and in the core like a typical program where the number of cores changes.
"""

from __future__ import annotations

import math

from berth.pilot.profile import Profile
from berth.predictor.families.program.work import missing_counters

BETWEEN_GPUS_LOG_WIDTH = math.log(8.0)
"""Half width of the log time of a program without counters on another GPU: as far as the reference
kernels spread, whose counters are those of no such program."""
CPU_AND_GPU_LOG_WIDTH = math.log(30.0)
"""The same from a CPU to a GPU and back."""


def is_time_only(profile: Profile) -> bool:
    """Return whether a profile has a run time but not all counters required for a roofline."""
    return profile.runtime is not None and bool(missing_counters(profile))


def missing_counters_sentence(profile: Profile) -> str | None:
    """Return what a profile lacks and how it is predicted without; None: it lacks nothing."""
    absent = missing_counters(profile)
    if not absent:
        return None
    return f"it has no {', no '.join(absent)}: predicted by its time, like a typical program"


def mispredicts_per_instruction(profile: Profile) -> float | None:
    """Return the mispredicted branches per instruction of a profile; None: not counted."""
    instructions, mispredicts = profile.value("instructions"), profile.value("branch_misses")
    return mispredicts / instructions if instructions and mispredicts is not None else None
