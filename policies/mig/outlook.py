"""Demands that are expected: what came lately, taken to go on at the same rate.

Queued jobs are certain, these are not: they get a lower priority, so that slices are cut for them
only from what the queue leaves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from berth.pilot.errors import UsageError
from berth.policies.mig.demands import Demand


@dataclass(frozen=True, slots=True)
class Arrival:
    """Jobs of a kind that came at one moment in the past."""

    at_s: float
    """Unix time."""
    demand: Demand
    """Its own count and priority do not matter."""
    count: int = 1


def expected(
    history: Iterable[Arrival],
    *,
    now_s: float,
    window_s: float,
    horizon_s: float,
    priority: int = -1,
) -> tuple[Demand, ...]:
    """The jobs to expect within ``horizon_s``, from those of the last ``window_s``.

    The mean of a Poisson process, rounded down: what comes less than once in the horizon is not
    cut for. Kinds of jobs are told apart by name and options. Raises UsageError for a window or
    horizon that is not positive.
    """
    if not (window_s > 0 and horizon_s > 0):
        raise UsageError("window and horizon of a forecast must be positive")
    seen: Counter[Demand] = Counter()
    for arrival in history:
        if now_s - window_s < arrival.at_s <= now_s:
            kind = replace(arrival.demand, count=1, priority=priority)
            seen[kind] += arrival.count
    # A hair more, so that 3 in 3 hours are one an hour in floating point, too.
    mean = {demand: n * horizon_s / window_s + 1e-9 for demand, n in seen.items()}
    return tuple(
        replace(demand, count=math.floor(number)) for demand, number in mean.items() if number >= 1
    )
