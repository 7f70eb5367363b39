"""Estimate the energy of a run from its predicted time and the platform's power under load.

The estimate was not verified: Berth has no measurements of models' energy on GPUs or CPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

from berth.predictor.core.prediction import Interval

IDLE_SHARE = 0.125
"""Default ratio of idle power to power under load, as for an A100: 50 W of 400 W."""


@dataclass(frozen=True, slots=True)
class RunEnergy:
    """The energy of one run in joules, and the share of it that an idle device would draw too."""

    joules: Interval
    idle_share: float
    """Idle power divided by the run's mean power."""


def energy(
    seconds: Interval, power_w: float | None, idle_w: float | None, waiting: float
) -> RunEnergy | None:
    """Return the energy of a run from its time and power; None where the power is unknown.

    ``waiting`` is the fraction of the time in which no kernel runs (launch overhead). The low end
    and the middle use idle power for that fraction, the high end full power for the longest time.
    """
    if power_w is None:
        return None
    idle = min(IDLE_SHARE * power_w if idle_w is None else idle_w, power_w)
    waiting = min(max(waiting, 0.0), 1.0)
    mean = idle + (power_w - idle) * (1 - waiting)
    joules = Interval(seconds.low * mean, seconds.mid * mean, seconds.high * power_w)
    return RunEnergy(joules, idle / mean if mean > 0 else 0.0)
