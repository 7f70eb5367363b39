"""Demands of the planner: jobs with the slices that each may run on, in the queue or expected."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from berth.pilot.errors import UsageError
from berth.predictor.hardware.mig.geometry import Geometry
from berth.predictor.hardware.mig.slices import lookup


@dataclass(frozen=True, slots=True)
class SliceOption:
    """One slice profile that a job may run on, with what is predicted there."""

    profile: str
    gpu: str | None = None
    """GPU model that this holds for; None: any GPU that has a profile of this name."""
    throughput: float | None = None
    """Work per second in one unit for all jobs, best the speed relative to a whole GPU."""
    runtime_s: float | None = None
    energy_j: float | None = None


@dataclass(frozen=True, slots=True)
class Demand:
    """``count`` equal jobs; a larger ``priority`` is placed first."""

    name: str
    options: tuple[SliceOption, ...]
    count: int = 1
    priority: int = 0

    def check(self) -> Demand:
        """Return the demand itself. Raises UsageError naming what makes no sense."""
        if self.count < 1:
            raise UsageError(f"job {self.name}: count is {self.count}, at least 1 is needed")
        if not self.options:
            raise UsageError(f"job {self.name}: no slice is allowed")
        for option in self.options:
            for field in ("throughput", "runtime_s", "energy_j"):
                value = getattr(option, field)
                if value is not None and not (math.isfinite(value) and value >= 0):
                    raise UsageError(
                        f"job {self.name}: {field} on {option.profile} is {value}; "
                        "a number of at least 0 is needed"
                    )
        return self

    def on(self, geometry: Geometry, profile: str) -> SliceOption | None:
        """Return what this job does on that slice of that GPU; None: it may not run there.

        An option that names the GPU goes before one that does not.
        """
        general = None
        for option in self.options:
            if option.profile != profile:
                continue
            if option.gpu is None:
                general = general or option
            elif option.gpu == geometry.gpu or lookup(option.gpu).gpu == _model(geometry.gpu):
                return option
        return general


@cache
def _model(gpu: str) -> str:
    """Return the table's name of a GPU that NVML names; the same name where it is not known."""
    try:
        return lookup(gpu).gpu
    except UsageError:
        return gpu


@dataclass(frozen=True, slots=True)
class DemandType:
    """Demands with the same options and priority: interchangeable for the planner."""

    options: tuple[SliceOption, ...]
    priority: int
    members: tuple[Demand, ...]

    @property
    def count(self) -> int:
        """Return how many jobs of this type there are."""
        return sum(d.count for d in self.members)

    def names(self) -> list[str]:
        """Return one name per job, in order."""
        return [d.name for d in self.members for _ in range(d.count)]


def grouped(demands: Iterable[Demand]) -> tuple[DemandType, ...]:
    """Return the demands by type, highest priority first, then those with the least choice of
    slices.

    Where jobs are equally good the planner takes the earlier type.
    """
    types: dict[tuple[tuple[SliceOption, ...], int], list[Demand]] = {}
    for demand in demands:
        types.setdefault((demand.options, demand.priority), []).append(demand.check())
    demand_types = [DemandType(o, p, tuple(members)) for (o, p), members in types.items()]
    return tuple(sorted(demand_types, key=lambda t: (-t.priority, len(t.options))))


@dataclass(frozen=True, slots=True)
class Arrival:
    """Jobs of a kind that came at one moment in the past."""

    at_s: float
    """Unix time of their submission."""
    demand: Demand
    """The kind of the jobs; its own count and priority do not matter."""
    count: int = 1


def expected(
    history: Iterable[Arrival],
    *,
    now_s: float,
    window_s: float,
    horizon_s: float,
    priority: int = -1,
) -> tuple[Demand, ...]:
    """Return the jobs to expect within ``horizon_s``, from those of the last ``window_s``.

    What came lately is taken to go on at the same rate: the mean of a Poisson process, rounded
    down, so that what comes less than once in the horizon is not cut for. These demands are not
    certain and get a lower priority than queued jobs. Kinds of jobs are told apart by name and
    options. Raises UsageError for a window or horizon that is not positive.
    """
    if not (window_s > 0 and horizon_s > 0):
        raise UsageError("window and horizon of a forecast must be positive")
    counts: Counter[Demand] = Counter()
    for arrival in history:
        if now_s - window_s < arrival.at_s <= now_s:
            kind = replace(arrival.demand, count=1, priority=priority)
            counts[kind] += arrival.count
    # A hair more, so that 3 in 3 hours are one an hour in floating point, too.
    mean = {demand: n * horizon_s / window_s + 1e-9 for demand, n in counts.items()}
    return tuple(
        replace(demand, count=math.floor(number)) for demand, number in mean.items() if number >= 1
    )
