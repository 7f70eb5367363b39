"""What is to be placed: jobs with the slices each may run on, and what each slice gives it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from berth.pilot.errors import UsageError
from berth.predictor.hardware.mig.geometry import Geometry
from berth.predictor.hardware.mig.table import lookup


@dataclass(frozen=True, slots=True)
class SliceOption:
    """One slice profile that a job may run on, with what is predicted there."""

    profile: str
    gpu: str | None = None
    """GPU model that this holds for; None: any GPU that has a profile of this name."""
    throughput: float | None = None
    """Work per second, in one unit for all jobs: best the speed relative to a whole GPU."""
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
        """Itself. Raises UsageError naming what makes no sense."""
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
        """What this job does on that slice of that GPU; None: it may not run there.

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
    """The model by the table's name, for a name as NVML has it; itself where it is not known."""
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
        """Jobs of this type in all."""
        return sum(d.count for d in self.members)

    def names(self) -> list[str]:
        """One name per job, in order."""
        return [d.name for d in self.members for _ in range(d.count)]


def grouped(demands: Iterable[Demand]) -> tuple[DemandType, ...]:
    """The demands by type, highest priority first, then those with the least choice of slices.

    Where jobs are equally good the planner takes the earlier type.
    """
    types: dict[tuple[tuple[SliceOption, ...], int], list[Demand]] = {}
    for demand in demands:
        types.setdefault((demand.options, demand.priority), []).append(demand.check())
    made = [DemandType(o, p, tuple(members)) for (o, p), members in types.items()]
    return tuple(sorted(made, key=lambda t: (-t.priority, len(t.options))))
