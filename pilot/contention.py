"""How much else ran on the machine while the program was timed, and what that did to its time.

Three signs: how long its computing threads waited for a processor (the scheduler's own account),
what the rest of the machine computed meanwhile, and what the host of a virtual machine took away.
"""

from __future__ import annotations

from dataclasses import dataclass

from berth.pilot.launch import Outcome

NOT_ITS_OWN = "the machine was not its own"
"""How the sentence of a contention begins."""
NOTICEABLE = 0.05
"""Share of the runtime that waiting or stealing must take to be worth a warning."""


@dataclass(frozen=True, slots=True)
class Contention:
    """Of one run. Times in seconds, ``other_cores`` in processors kept busy by others."""

    waited_s: float
    other_cores: float
    stolen_share: float
    idle_s: float
    """About what the run would have taken on a machine of its own."""

    @property
    def noticeable(self) -> bool:
        """Whether the measured time of that run is not the program's own."""
        return self.idle_s + self.waited_s > (1 + NOTICEABLE) * self.idle_s

    def sentence(self, runtime_s: float) -> str | None:
        """What was seen and what it does to a Profile's runtime; None where other runs escaped it.

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
    """Whether a Profile's warning is the sentence of a Contention."""
    return warning.startswith(NOT_ITS_OWN)


def contention(outcome: Outcome) -> Contention | None:
    """Of the run that ended so; None where the kernel accounts nothing."""
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
