"""Demands of the MIG planner: queued or expected jobs with the slices that each job may use."""

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
    """A slice profile that a job may use, with the predictions for the job on that slice."""

    profile: str
    gpu: str | None = None
    """GPU model of the slice; None: any GPU that has a profile of this name."""
    throughput: float | None = None
    """Work per second, in the same unit for all jobs; preferably speed relative to a whole GPU."""
    runtime_s: float | None = None
    energy_j: float | None = None


@dataclass(frozen=True, slots=True)
class Demand:
    """``count`` equal jobs; jobs with a larger ``priority`` are placed first."""

    name: str
    options: tuple[SliceOption, ...]
    count: int = 1
    priority: int = 0

    def check(self) -> Demand:
        """Return the demand unchanged. Raises UsageError naming an invalid field."""
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
        """Return the job's option for a profile on a GPU model; None: the job may not run there.

        An option that names the GPU model takes precedence over one that does not.
        """
        general = None
        for option in self.options:
            known = geometry.named(option.profile)
            if known is None or known.name != profile:
                continue
            if option.gpu is None:
                general = general or option
            elif option.gpu == geometry.gpu or lookup(option.gpu).gpu == _model(geometry.gpu):
                return option
        return general


@cache
def _model(gpu: str) -> str:
    """Return the MIG table's name for a GPU name from NVML; an unknown name is returned
    unchanged."""
    try:
        return lookup(gpu).gpu
    except UsageError:
        return gpu


@dataclass(frozen=True, slots=True)
class DemandType:
    """Demands with equal options and priority, which the planner treats as interchangeable."""

    options: tuple[SliceOption, ...]
    priority: int
    members: tuple[Demand, ...]

    @property
    def count(self) -> int:
        """Return how many jobs of this type there are."""
        return sum(d.count for d in self.members)

    def names(self) -> list[str]:
        """Return the jobs' names in order, one entry per job."""
        return [d.name for d in self.members for _ in range(d.count)]


def grouped(demands: Iterable[Demand]) -> tuple[DemandType, ...]:
    """Return the demand types, sorted by descending priority, then by ascending number of slice
    options.

    Where jobs are equally good, the planner prefers the earlier type.
    """
    types: dict[tuple[tuple[SliceOption, ...], int], list[Demand]] = {}
    for demand in demands:
        types.setdefault((demand.options, demand.priority), []).append(demand.check())
    demand_types = [DemandType(o, p, tuple(members)) for (o, p), members in types.items()]
    return tuple(sorted(demand_types, key=lambda t: (-t.priority, len(t.options))))


@dataclass(frozen=True, slots=True)
class Arrival:
    """Equal jobs that were submitted at one moment in the past."""

    at_s: float
    """Unix time of their submission."""
    demand: Demand
    """The submitted job; the ``count`` and ``priority`` of this Demand are ignored."""
    count: int = 1


def expected(
    history: Iterable[Arrival],
    *,
    now_s: float,
    window_s: float,
    horizon_s: float,
) -> tuple[Demand, ...]:
    """Return the jobs expected within ``horizon_s`` seconds, from arrivals in the last
    ``window_s``.

    The arrival rate in the window is assumed to continue. The number of jobs is the mean of a
    Poisson process, rounded down, so jobs that arrive less than once per horizon are left out.
    Expected jobs are uncertain and get a lower priority than queued jobs. Jobs with equal name and
    options are counted together. Raises UsageError unless window and horizon are positive.
    """
    if not (window_s > 0 and horizon_s > 0):
        raise UsageError("window and horizon of a forecast must be positive")
    counts: Counter[Demand] = Counter()
    for arrival in history:
        if now_s - window_s < arrival.at_s <= now_s:
            kind = replace(arrival.demand, count=1, priority=-1)
            counts[kind] += arrival.count
    # The 1e-9 offsets rounding errors: 3 jobs in 3 hours must give exactly 1 job per hour.
    mean = {demand: n * horizon_s / window_s + 1e-9 for demand, n in counts.items()}
    return tuple(
        replace(demand, count=math.floor(number)) for demand, number in mean.items() if number >= 1
    )
