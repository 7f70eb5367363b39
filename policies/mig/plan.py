"""A plan: its objectives, what each GPU becomes, in which steps, and whether it is worth it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from berth.pilot.errors import UsageError
from berth.pilot.units import format_seconds
from berth.policies.mig.layout import GpuState, Instance, Layout, exclude


class Objective(StrEnum):
    """One objective of a plan; in a list of them the first decides before the second."""

    JOBS = "jobs"
    """Most jobs placed, those of higher priority first."""
    THROUGHPUT = "throughput"
    """Largest sum of predicted throughput."""
    MAKESPAN = "makespan"
    """Earliest end of the last placed job."""
    ENERGY = "energy"
    """Least energy of the placed jobs."""
    GPUS = "gpus"
    """Fewest GPUs with work on them."""
    RECUTS = "recuts"
    """Fewest instances destroyed and created."""


COSTS = (Objective.MAKESPAN, Objective.ENERGY, Objective.GPUS, Objective.RECUTS)
"""Objectives to be made small; alone, placing nothing would be best."""


def ordered(names: Sequence[str] | str) -> tuple[Objective, ...]:
    """Return the full order of what somebody asked for, for example ``"jobs,throughput"``.

    A cost in front gets ``jobs`` before it; ``jobs`` and ``recuts`` go last where not named. Raises
    UsageError naming the unknown or doubled objective.
    """
    words = names.split(",") if isinstance(names, str) else list(names)
    order: list[Objective] = []
    for word in (w.strip() for w in words):
        known = [o.value for o in Objective]
        if word not in known:
            near = difflib.get_close_matches(word, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise UsageError(f"{word!r} is not an objective", hint=hint)
        if Objective(word) in order:
            raise UsageError(f"the objective {word!r} is named twice")
        order.append(Objective(word))
    if not order:
        raise UsageError("no objective is given", hint="for example: jobs,throughput")
    if order[0] in COSTS and Objective.JOBS not in order:
        order.insert(0, Objective.JOBS)
    if order[0] in COSTS:
        raise UsageError(
            f"{order[0].value} before jobs would place nothing",
            hint=f"write jobs,{','.join(o.value for o in order if o is not Objective.JOBS)}",
        )
    for last in (Objective.JOBS, Objective.RECUTS):
        if last not in order:
            order.append(last)
    return tuple(order)


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
    """The plan for one GPU."""

    state: GpuState
    target: Layout
    placements: tuple[Placement, ...]

    @property
    def destroyed(self) -> tuple[Instance, ...]:
        """Return the instances that must be destroyed."""
        return tuple(i for i in self.state.layout.instances if i not in self.target.instances)

    @property
    def created(self) -> tuple[Instance, ...]:
        """Return the instances that must be created."""
        return tuple(i for i in self.target.instances if i not in self.state.layout.instances)

    @property
    def recuts(self) -> int:
        """Return how many instances are destroyed or created."""
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
    """The best that any plan could reach; None: not computed."""
    priority: int | None = None
    """Priority of the jobs that are counted, where there are several."""

    @property
    def gap(self) -> float | None:
        """Return the relative distance to the bound: 0 is proven best, None not known."""
        if self.bound is None:
            return None
        if self.value == self.bound:
            return 0.0
        return abs(self.bound - self.value) / max(abs(self.bound), abs(self.value))


@dataclass(frozen=True, slots=True)
class Plan:
    """The planner's answer for a fleet. The same input gives the same plan."""

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
        """Return how many jobs got a slice."""
        return sum(len(g.placements) for g in self.gpus)

    @property
    def recuts(self) -> int:
        """Return how many instances are destroyed or created on all GPUs."""
        return sum(g.recuts for g in self.gpus)


@dataclass(frozen=True, slots=True)
class Hysteresis:
    """When a new plan is worth carrying out: not too soon after the last, not for too little."""

    min_dwell_s: float = 600.0
    """A layout stays at least so long, in seconds."""
    min_gain: float = 0.05
    """Least relative improvement of the first objective that improves."""

    def __post_init__(self) -> None:
        if not (self.min_dwell_s >= 0 and self.min_gain >= 0):
            raise ValueError("dwell time and gain must not be negative")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to re-cut, the gain, and the sentence for the log."""

    recut: bool
    gain: float
    reason: str


def gain(new: Plan, stay: Plan) -> tuple[float, Objective | None]:
    """Return the relative improvement of ``new`` over leaving the layouts as they are.

    It is that of the first objective on which they differ, which is returned, too: negative where
    it gets worse, infinite from nothing. ``stay`` is the plan with ``recut=False``; re-cuts are the
    price, not a gain. Both plans must have the same order.
    """
    for reached, before in zip(new.reached, stay.reached, strict=True):
        if reached.objective is Objective.RECUTS or reached.value == before.value:
            continue
        change = reached.value - before.value
        if reached.objective in COSTS:
            change = -change
        base = abs(before.value)
        return (change / base if base else float("inf") * change, reached.objective)
    return 0.0, None


def worth_recutting(
    new: Plan, stay: Plan, rules: Hysteresis, *, now_s: float, last_recut_s: float | None
) -> Verdict:
    """Return whether to carry ``new`` out now, by when the layouts were last changed (Unix time).

    A change that lies further ahead than the dwell time was noted by a clock that was wrong.
    """
    improvement, objective = gain(new, stay)
    if not new.recuts:
        return Verdict(False, improvement, "the layouts already fit")
    if last_recut_s is not None and abs(now_s - last_recut_s) < rules.min_dwell_s:
        left = format_seconds(rules.min_dwell_s - abs(now_s - last_recut_s))
        return Verdict(False, improvement, f"the layouts were changed just now; wait {left}")
    if objective is None or improvement < rules.min_gain or improvement <= 0:
        too_little = f"{100 * improvement:.3g} % more {objective.value}" if objective else "nothing"
        return Verdict(
            False,
            improvement,
            f"it would gain {too_little}, less than {100 * rules.min_gain:.3g} %",
        )
    percent = "from none" if improvement == float("inf") else f"{100 * improvement:.3g} %"
    return Verdict(True, improvement, f"{objective.value} improves by {percent}")


class Action(StrEnum):
    """The two kinds of steps."""

    DESTROY = "destroy"
    CREATE = "create"


@dataclass(frozen=True, slots=True)
class Step:
    """One change to one GPU; steps of one GPU are done in their order."""

    gpu: str
    action: Action
    instance: Instance
    after_end_of: tuple[Instance, ...] = ()
    """Running instances whose work must have ended before."""

    def __str__(self) -> str:
        wait = ", ".join(map(str, self.after_end_of))
        return f"{self.gpu}: {self.action.value} {self.instance}" + (
            f" after the end of {wait}" if wait else ""
        )


def steps(plans: Iterable[GpuPlan]) -> tuple[Step, ...]:
    """Return all steps, GPU by GPU; those that can be done now before those that wait."""
    now: list[Step] = []
    later: list[Step] = []
    for plan in plans:
        own_steps = gpu_steps(plan)
        cut = next((n for n, s in enumerate(own_steps) if s.after_end_of), len(own_steps))
        now.extend(own_steps[:cut])
        later.extend(own_steps[cut:])
    return (*now, *later)


def gpu_steps(plan: GpuPlan) -> tuple[Step, ...]:
    """Return the steps of one GPU; every layout on the way is legal.

    Each create stands right behind the destroys that make its room, and what needs no waiting goes
    first: a failure or a long wait then leaves as much as possible in use. Whether an instance
    really is idle is checked again by whoever carries a step out.
    """
    geometry = plan.state.geometry
    busy = {r.instance for r in plan.state.running}
    layout = plan.state.layout
    going = list(plan.destroyed)
    ordered_steps: list[Step] = []

    def destroy(instance: Instance) -> None:
        nonlocal layout
        going.remove(instance)
        layout = layout.minus(instance)
        wait = (instance,) if instance in busy else ()
        ordered_steps.append(Step(plan.state.gpu, Action.DESTROY, instance, wait))

    def in_the_way(instance: Instance) -> list[Instance]:
        """Return what must go first: the busy before the idle, which serve until the wait ends."""
        blocking = [old for old in going if exclude(geometry, old, instance)]
        return sorted(blocking, key=lambda old: (old not in busy, old))

    def patience(instance: Instance) -> tuple[int, int, int]:
        size = geometry.profile(instance.profile).memory_slices
        return (sum(old in busy for old in in_the_way(instance)), -size, instance.start)

    for instance in sorted(plan.created, key=patience):
        for old in in_the_way(instance):
            destroy(old)
        while layout.plus(instance).problem(geometry) and going:
            destroy(min(going, key=lambda old: (old in busy, old)))
        layout = layout.plus(instance)
        ordered_steps.append(Step(plan.state.gpu, Action.CREATE, instance))
    for old in list(going):
        destroy(old)
    return tuple(ordered_steps)
