"""Energy of a run: time and power, with what is drawn while the device waits. Unverified.

Nobody measured energy of graphs in the data that Berth has, on GPUs or on CPUs: this is arithmetic
on a platform's own figures.
"""

from __future__ import annotations

from dataclasses import dataclass

from berth.predictor.core.prediction import Interval

IDLE_SHARE = 0.125
"""Idle share of the power under load, where a platform names none: an A100's 50 W of 400."""


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules of one run and what part of them is drawn anyway."""

    joules: Interval
    idle_share: float
    """Share of the middle that the device draws for being there."""


def energy(
    seconds: Interval, power_w: float | None, idle_w: float | None, waiting: float
) -> Energy | None:
    """Return the energy of a run of so many seconds; None where the platform's power is not known.

    ``waiting``: part of the time in which no kernel runs (launches bound it), of 1. Low end: idle
    power while waiting over the shortest time; high end: full power over the longest.
    """
    if power_w is None:
        return None
    idle = min(IDLE_SHARE * power_w if idle_w is None else idle_w, power_w)
    waiting = min(max(waiting, 0.0), 1.0)
    mean = idle + (power_w - idle) * (1 - waiting)
    joules = Interval(seconds.low * mean, seconds.mid * mean, seconds.high * power_w)
    return Energy(joules, idle / mean if mean > 0 else 0.0)
