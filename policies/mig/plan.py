"""A MIG plan: objectives, target layouts, ordered steps, and whether its changes are worth their
cost."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from berth.pilot.errors import UsageError
from berth.pilot.units import counted, format_seconds
from berth.policies.mig.layout import GpuInstance, GpuState, Layout, exclude


class PlanObjective(StrEnum):
    """An objective of a MIG plan; in a list of objectives, earlier ones take precedence."""

    JOBS = "jobs"
    """Most jobs placed; jobs of higher priority count first."""
    THROUGHPUT = "throughput"
    """Largest sum of predicted throughput."""
    MAKESPAN = "makespan"
    """Earliest end of the last placed job (needs predicted run times)."""
    ENERGY = "energy"
    """Least energy of the placed jobs."""
    GPUS = "gpus"
    """Fewest GPUs with running or placed jobs."""
    RECUTS = "recuts"
    """Fewest instances destroyed and created."""


COSTS = (PlanObjective.MAKESPAN, PlanObjective.ENERGY, PlanObjective.GPUS, PlanObjective.RECUTS)
"""Objectives that are minimised; on their own, placing no job would be optimal."""


def ordered(names: Sequence[str] | str) -> tuple[PlanObjective, ...]:
    """Return all objectives of a plan in order, from a list or text such as ``"jobs,throughput"``.

    If the first objective is a cost, ``jobs`` goes before it; ``jobs`` and ``recuts`` are appended
    where they are missing. Raises UsageError for an unknown or repeated objective, an empty list,
    or a cost that stands before ``jobs``.
    """
    words = names.split(",") if isinstance(names, str) else list(names)
    order: list[PlanObjective] = []
    for word in (w.strip() for w in words):
        known = [o.value for o in PlanObjective]
        if word not in known:
            near = difflib.get_close_matches(word, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise UsageError(f"{word!r} is not an objective", hint=hint)
        if PlanObjective(word) in order:
            raise UsageError(f"the objective {word!r} is named twice")
        order.append(PlanObjective(word))
    if not order:
        raise UsageError("no objective is given", hint="for example: jobs,throughput")
    if order[0] in COSTS and PlanObjective.JOBS not in order:
        order.insert(0, PlanObjective.JOBS)
    if order[0] in COSTS:
        raise UsageError(
            f"{order[0].value} before jobs would place nothing",
            hint=f"write jobs,{','.join(o.value for o in order if o is not PlanObjective.JOBS)}",
        )
    for last in (PlanObjective.JOBS, PlanObjective.RECUTS):
        if last not in order:
            order.append(last)
    return tuple(order)


@dataclass(frozen=True, slots=True)
class SlicePlacement:
    """One job on one instance of the target layout."""

    job: str
    instance: GpuInstance
    ready_s: float
    """Seconds from now until the instance can be used."""
    finish_s: float | None
    """Seconds from now until the predicted end of the job; None: its run time is unknown."""
    throughput: float | None
    energy_j: float | None


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """The plan for one GPU: its present state, its target layout and the jobs placed on it."""

    state: GpuState
    target: Layout
    placements: tuple[SlicePlacement, ...]

    @property
    def destroyed(self) -> tuple[GpuInstance, ...]:
        """Return the instances that must be destroyed."""
        return tuple(i for i in self.state.layout.instances if i not in self.target.instances)

    @property
    def created(self) -> tuple[GpuInstance, ...]:
        """Return the instances that must be created."""
        return tuple(i for i in self.target.instances if i not in self.state.layout.instances)

    @property
    def recuts(self) -> int:
        """Return how many instances are destroyed or created."""
        return len(self.destroyed) + len(self.created)


@dataclass(frozen=True, slots=True)
class UnplacedJobs:
    """Jobs of one name that got no slice, with the reason."""

    job: str
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reached:
    """The value that a plan reaches for one objective, with the bound for all plans."""

    objective: PlanObjective
    value: float
    bound: float | None
    """The best value that any plan could reach; None: not computed."""
    priority: int | None = None
    """Priority of the counted jobs, where jobs have several priorities; else None."""

    @property
    def gap(self) -> float | None:
        """Return the relative distance to the bound: 0 is proven optimal, None unknown."""
        if self.bound is None:
            return None
        if self.value == self.bound:
            return 0.0
        return abs(self.bound - self.value) / max(abs(self.bound), abs(self.value))


@dataclass(frozen=True, slots=True)
class MigPlan:
    """The planner's result for a fleet; the same input gives the same plan.

    If the time limit cuts a proof short, plans for the same input may differ.
    """

    gpus: tuple[GpuPlan, ...]
    unplaced: tuple[UnplacedJobs, ...]
    order: tuple[PlanObjective, ...]
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
    """When a new plan may be carried out: a least time since the last change and a least gain."""

    min_dwell_s: float = 600.0
    """Least time in seconds between two changes of the layouts."""
    min_gain: float = 0.05
    """Least relative improvement of the first objective that improves."""

    def __post_init__(self) -> None:
        if not (self.min_dwell_s >= 0 and self.min_gain >= 0):
            raise ValueError("dwell time and gain must not be negative")


@dataclass(frozen=True, slots=True)
class RecutVerdict:
    """Whether to carry out a plan's changes of layouts, the relative gain, and a sentence for the
    log."""

    recut: bool
    gain: float
    reason: str


def gain(new: MigPlan, stay: MigPlan) -> tuple[float, PlanObjective | None]:
    """Return the relative improvement of ``new`` over ``stay`` (layouts unchanged), and its
    objective.

    The first objective on which the plans differ is compared; re-cuts are ignored. The improvement
    is negative where the objective gets worse and infinite from a base of 0; without any difference
    the result is (0, None). ``stay`` is the plan with ``recut=False``; both plans must have the
    same order of objectives.
    """
    for reached, before in zip(new.reached, stay.reached, strict=True):
        if reached.objective is PlanObjective.RECUTS or reached.value == before.value:
            continue
        change = reached.value - before.value
        if reached.objective in COSTS:
            change = -change
        base = abs(before.value)
        return (change / base if base else float("inf") * change, reached.objective)
    return 0.0, None


def worth_recutting(
    new: MigPlan, stay: MigPlan, rules: Hysteresis, *, now_s: float, last_recut_s: float | None
) -> RecutVerdict:
    """Return whether to change the layouts to plan ``new`` now, given the time of the last change.

    ``last_recut_s``: Unix time; None: never. A last change that lies in the future by more than the
    dwell time is ignored: it comes from a wrong clock.
    """
    improvement, objective = gain(new, stay)
    if not new.recuts:
        left_out = sum(jobs.count for jobs in new.unplaced)
        reason = f"no other layout has room for {counted(left_out, 'more job')}"
        return RecutVerdict(False, improvement, reason if left_out else "the layouts already fit")
    if last_recut_s is not None and abs(now_s - last_recut_s) < rules.min_dwell_s:
        left = format_seconds(rules.min_dwell_s - abs(now_s - last_recut_s))
        return RecutVerdict(False, improvement, f"the layouts were changed just now; wait {left}")
    if objective is None or improvement < rules.min_gain or improvement <= 0:
        too_little = f"{100 * improvement:.3g} % more {objective.value}" if objective else "nothing"
        return RecutVerdict(
            False,
            improvement,
            f"it would gain {too_little}, less than {100 * rules.min_gain:.3g} %",
        )
    percent = "from none" if improvement == float("inf") else f"{100 * improvement:.3g} %"
    return RecutVerdict(True, improvement, f"{objective.value} improves by {percent}")


class StepAction(StrEnum):
    """The two kinds of steps: destroy or create an instance."""

    DESTROY = "destroy"
    CREATE = "create"


@dataclass(frozen=True, slots=True)
class Step:
    """One instance to destroy or create on one GPU; a GPU's steps are carried out in order."""

    gpu: str
    action: StepAction
    instance: GpuInstance
    after_end_of: tuple[GpuInstance, ...] = ()
    """Running instances whose work must have ended before this step."""

    def __str__(self) -> str:
        wait = ", ".join(map(str, self.after_end_of))
        return f"{self.gpu}: {self.action.value} {self.instance}" + (
            f" after the end of {wait}" if wait else ""
        )


def steps(plans: Iterable[GpuPlan]) -> tuple[Step, ...]:
    """Return the steps of all GPUs: first those that can start now, then those that must wait.

    A GPU's steps keep their order; all steps after its first waiting step wait, too.
    """
    now: list[Step] = []
    later: list[Step] = []
    for plan in plans:
        own_steps = gpu_steps(plan)
        cut = next((n for n, s in enumerate(own_steps) if s.after_end_of), len(own_steps))
        now.extend(own_steps[:cut])
        later.extend(own_steps[cut:])
    return (*now, *later)


def gpu_steps(plan: GpuPlan) -> tuple[Step, ...]:
    """Return the steps of one GPU in an order in which every intermediate layout is legal.

    Each create directly follows the destroys that make room for it, and steps that need not wait
    come first: a failure or a long wait then leaves as many instances as possible in use. Whoever
    carries out a step checks again that the instance is idle.
    """
    geometry = plan.state.geometry
    busy = {r.instance for r in plan.state.running}
    layout = plan.state.layout
    going = list(plan.destroyed)
    ordered_steps: list[Step] = []

    def destroy(instance: GpuInstance) -> None:
        nonlocal layout
        going.remove(instance)
        layout = layout.minus(instance)
        wait = (instance,) if instance in busy else ()
        ordered_steps.append(Step(plan.state.gpu, StepAction.DESTROY, instance, wait))

    def in_the_way(instance: GpuInstance) -> list[GpuInstance]:
        """Return the instances to destroy before ``instance`` can exist: busy ones first, then
        idle ones.

        The idle ones so serve until the busy ones' work ends.
        """
        blocking = [old for old in going if exclude(geometry, old, instance)]
        return sorted(blocking, key=lambda old: (old not in busy, old))

    def patience(instance: GpuInstance) -> tuple[int, int, int]:
        size = geometry.profile(instance.profile).memory_slices
        return (sum(old in busy for old in in_the_way(instance)), -size, instance.start)

    for instance in sorted(plan.created, key=patience):
        for old in in_the_way(instance):
            destroy(old)
        while layout.plus(instance).problem(geometry) and going:
            destroy(min(going, key=lambda old: (old in busy, old)))
        layout = layout.plus(instance)
        ordered_steps.append(Step(plan.state.gpu, StepAction.CREATE, instance))
    for old in list(going):
        destroy(old)
    return tuple(ordered_steps)
