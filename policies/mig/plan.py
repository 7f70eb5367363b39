"""A plan: for each GPU the layout to reach, who runs where, and what stays unplaced and why."""

from __future__ import annotations

from dataclasses import dataclass

from berth.policies.mig.layout import GpuState, Instance, Layout
from berth.policies.mig.objectives import Objective


@dataclass(frozen=True, slots=True)
class Placement:
    """One job on one instance of the target layout."""

    job: str
    instance: Instance
    ready_s: float
    """Seconds from now until the instance can be used."""
    finish_s: float | None
    """Seconds from now until the job ends by prediction; None: no run time was given."""
    throughput: float | None
    energy_j: float | None


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """What becomes of one GPU."""

    state: GpuState
    target: Layout
    placements: tuple[Placement, ...]

    @property
    def destroyed(self) -> tuple[Instance, ...]:
        """Instances that must go."""
        return tuple(i for i in self.state.layout.instances if i not in self.target.instances)

    @property
    def created(self) -> tuple[Instance, ...]:
        """Instances that must be made."""
        return tuple(i for i in self.target.instances if i not in self.state.layout.instances)

    @property
    def recuts(self) -> int:
        """Instances destroyed plus created."""
        return len(self.destroyed) + len(self.created)


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Jobs of one name that got no slice."""

    job: str
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reached:
    """One objective: what the plan reaches and what no plan can exceed."""

    objective: Objective
    value: float
    bound: float | None
    """None: not worked out."""
    priority: int | None = None
    """Which jobs, where there are several priorities."""

    @property
    def gap(self) -> float | None:
        """Relative distance to the bound: 0 is proven best."""
        if self.bound is None:
            return None
        if self.value == self.bound:
            return 0.0
        return abs(self.bound - self.value) / max(abs(self.bound), abs(self.value))


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole answer. The same input gives the same plan."""

    gpus: tuple[GpuPlan, ...]
    unplaced: tuple[Unplaced, ...]
    order: tuple[Objective, ...]
    reached: tuple[Reached, ...]
    solver: str
    """``table`` (one GPU, exact), ``cp-sat`` or ``heuristic``."""
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def placed(self) -> int:
        """Jobs that got a slice."""
        return sum(len(g.placements) for g in self.gpus)

    @property
    def recuts(self) -> int:
        """Instances destroyed plus created on all GPUs."""
        return sum(g.recuts for g in self.gpus)

    @property
    def is_optimal(self) -> bool:
        """True where every objective is proven, each under those before it."""
        return all(r.gap == 0 for r in self.reached)
