"""Whether the measurements of a run can be believed: contention for the machine, impossible counts.

Contention has three signs: how long the program's computing threads waited for a processor (the
scheduler's own account), what the rest of the machine computed meanwhile, and what the host of a
virtual machine took away.

Counts are held against the native run's processor time. An emulated run can miss the program: a
launcher that starts it elsewhere, a script whose children are not followed, an instruction that the
emulator does not know. Its counts are then of something else, and a prediction from them is worse
than one from time and memory alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from berth.pilot.launch import Outcome
from berth.pilot.profile import Measurement, Quality, RunsOn, Target
from berth.pilot.runs_on import LAUNCHERS, REMOTE_LAUNCHERS

NOT_ITS_OWN = "the machine was not its own"
"""Beginning of a contention's sentence."""
NOTICEABLE = 0.05
"""Share of the runtime that waiting or stealing must take to be worth a warning."""


@dataclass(frozen=True, slots=True)
class Contention:
    """Others' use of the machine in one run: seconds, and ``other_cores`` in busy processors."""

    waited_s: float
    other_cores: float
    stolen_share: float
    idle_s: float
    """About what the run would have taken on a machine of its own."""

    @property
    def noticeable(self) -> bool:
        """Return whether the measured time of that run is not the program's own."""
        return self.idle_s + self.waited_s > (1 + NOTICEABLE) * self.idle_s

    def sentence(self, runtime_s: float) -> str | None:
        """Say what was seen and what it does to a runtime; None where other runs escaped it.

        ``runtime_s`` is in seconds: the median of all runs, of which this is one.
        """
        slowdown = runtime_s / max(self.idle_s, 1e-9)
        if not self.noticeable or slowdown <= 1 + NOTICEABLE:
            return None
        signs = [f"it waited {self.waited_s:.3g} s for a processor"]
        if self.other_cores >= 0.1:
            signs.append(f"other work kept {self.other_cores:.1f} processors busy")
        if self.stolen_share >= 0.01:
            signs.append(f"the host of this virtual machine took {self.stolen_share:.0%}")
        return (
            f"{NOT_ITS_OWN} ({', '.join(signs)}): alone it would take about "
            f"{self.idle_s:.3g} s, so the times of this profile are {slowdown:.1f} times "
            "too long; measure again on an idle node"
        )


def is_contention(warning: str) -> bool:
    """Return whether a Profile's warning is the sentence of a Contention."""
    return warning.startswith(NOT_ITS_OWN)


def contention(outcome: Outcome) -> Contention | None:
    """Return the contention of the run that ended so; None where the kernel accounts nothing."""
    if not outcome.machine_s or outcome.wall_s <= 0:
        return None
    other = max(0.0, outcome.machine_s.get("busy", 0.0) - outcome.cpu_s) / outcome.wall_s
    capacity = outcome.machine_s.get("busy", 0.0) + outcome.machine_s.get("stolen", 0.0)
    stolen = outcome.machine_s.get("stolen", 0.0) / capacity if capacity else 0.0
    waited = min(outcome.waited_s, 0.99 * outcome.wall_s)
    running = outcome.wall_s - waited
    # What the host took is not in the scheduler's account of waiting.
    taken = min(running, outcome.cpu_s) * stolen
    return Contention(waited + taken, other, stolen, running - taken)


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
    """Return why the counted instructions cannot be those of ``user_s`` seconds, or None.

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
    """Return why a launcher's process tree is not the program, or None."""
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
    """Return ``counters`` with instruction counts and the like missing, for the reason ``why``."""
    return {
        name: Measurement(value=None, quality=Quality.MISSING, source="none", note=why)
        if measurement.source not in {"proc", "cgroup"}
        else measurement
        for name, measurement in counters.items()
    }
