"""Can what was counted be what ran? Counts are held against the native run's processor time.

An emulated run can miss the program: a launcher that starts it elsewhere, a script whose children
are not followed, an instruction that the emulator does not know. What it then counted is of
something else, and a prediction from it is worse than one from time and memory alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from berth.pilot.launch import Outcome
from berth.pilot.profile import Measurement, Quality, RunsOn, Target
from berth.pilot.runs_on import LAUNCHERS, REMOTE_LAUNCHERS

MOST_PER_S = 4e10
"""Instructions that one core retires in a second: eight a cycle at 5 GHz."""
LEAST_PER_S = 2.5e8
"""Instructions a second of a program that is slow, beside the misses that are counted apart."""
MISS_S = {"l2_load_misses": 40e-9, "llc_load_misses": 250e-9, "branch_misses": 20e-9}
"""Time that one of these takes at the most, on a slow machine and one after the other."""
DOUBT = 4.0
"""Contention for caches and hyperthreads, and machines slower than these figures."""
SHORT_S = 0.2
"""Below this, start-up and the clock's grain decide."""
IDLE_SHARE = 0.05
"""A launcher with less processor time than this share of its wall time only waited."""


def impossible(
    counters: Mapping[str, Measurement], user_s: float | None, runs_on: RunsOn
) -> str | None:
    """Why the counted instructions cannot be those of ``user_s`` seconds, or None.

    ``user_s``: processor time of the native run in user mode; None: not known, nothing to say.
    """
    counted = counters.get("instructions")
    if counted is None or counted.value is None or user_s is None or runs_on.gpus:
        return None
    if Target.CPU not in runs_on.targets:
        return None
    most = MOST_PER_S * (user_s + SHORT_S)
    if counted.value > most:
        return (
            f"{counted.value:.3g} instructions were counted, more than a processor runs in the "
            f"{user_s:.3g} s that the program took"
        )
    slowest_s = counted.value / LEAST_PER_S + sum(
        each * (counters[name].value or 0.0) for name, each in MISS_S.items() if name in counters
    )
    if user_s > DOUBT * slowest_s + SHORT_S:
        return (
            f"only {counted.value:.3g} instructions were counted, at most {slowest_s:.3g} s of "
            f"work, where the program took {user_s:.3g} s of processor time: it was not this that "
            "was counted"
        )
    return None


def ran_elsewhere(command: tuple[str, ...], outcome: Outcome) -> str | None:
    """Why a launcher's process tree is not the program, or None."""
    launcher = PurePath(command[0]).name
    if launcher not in REMOTE_LAUNCHERS | LAUNCHERS or outcome.wall_s < SHORT_S:
        return None
    if outcome.cpu_s > IDLE_SHARE * outcome.wall_s:
        return None
    return (
        f"{launcher} used {outcome.cpu_s:.2g} s of processor time in {outcome.wall_s:.3g} s: the "
        f"program ran elsewhere; put the pilot inside ({launcher} ... berth pilot run -- ./app) or "
        "use berth pilot submit"
    )


def without_counts(counters: Mapping[str, Measurement], why: str) -> dict[str, Measurement]:
    """``counters`` with every count of instructions and of what they did missing, for ``why``."""
    return {
        name: Measurement(value=None, quality=Quality.MISSING, source="none", note=why)
        if measurement.source not in {"proc", "cgroup"}
        else measurement
        for name, measurement in counters.items()
    }
