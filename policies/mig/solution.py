"""A planner's solution in counts, and the plan made from it: which job takes which instance.

The planners decide how many slots of each kind exist and how many jobs take them. ``allot`` then
gives each GPU its target layout and its jobs. It drops a created instance that no job uses and
keeps an idle instance that need not go. Values are converted to the user's units, and each GPU and
each unplaced job gets an explanatory sentence.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from berth.pilot.units import format_seconds
from berth.policies.mig.layout import GpuState, Layout
from berth.policies.mig.plan import (
    GpuPlan,
    MigPlan,
    PlanObjective,
    Reached,
    SlicePlacement,
    UnplacedJobs,
)
from berth.policies.mig.problem import (
    GpuGroup,
    GpuView,
    LayoutOption,
    PlanningProblem,
    Slot,
    SlotKind,
)

_WORDS = {
    PlanObjective.JOBS: "jobs placed",
    PlanObjective.THROUGHPUT: "throughput",
    PlanObjective.MAKESPAN: "makespan",
    PlanObjective.ENERGY: "energy",
    PlanObjective.GPUS: "GPUs with work",
    PlanObjective.RECUTS: "instances re-cut",
}
_UNITS = {PlanObjective.MAKESPAN: " s", PlanObjective.ENERGY: " J"}


@dataclass(frozen=True, slots=True)
class Solution:
    """A planner's result in counts: layouts for groups of GPUs, slots for types of jobs."""

    chosen: tuple[tuple[int, LayoutOption, int], ...]
    """Number of the group, layout, and how many GPUs of the group get this layout."""
    taken: tuple[tuple[int, SlotKind, int], ...]
    """Number of the job type, kind of slot, and how many of these jobs take such a slot."""
    stages: tuple[SolvedStage, ...]


@dataclass(frozen=True, slots=True)
class SolvedStage:
    """The value reached for one objective (or one priority of ``jobs``), in the problem's integers.

    Larger is better: costs are negative.
    """

    objective: PlanObjective
    value: int
    bound: int | None
    """Upper bound on the value of any solution; None: not computed."""


def stages_of(problem: PlanningProblem, value: tuple[int, ...]) -> tuple[SolvedStage, ...]:
    """Return the stages of the exact planner's value; each value is its own bound, since it is
    proven."""
    numbers = iter(value)
    return tuple(SolvedStage(o, n, n) for o, _ in stage_order(problem) for n in (next(numbers),))


def stage_order(problem: PlanningProblem) -> list[tuple[PlanObjective, int | None]]:
    """Return the pairs of objective and priority in the order of solving.

    ``jobs`` appears once for each priority; the priority is None for the other objectives.
    """
    return [
        (o, p)
        for o in problem.order
        for p in (problem.priorities if o is PlanObjective.JOBS else (None,))
    ]


def in_units(problem: PlanningProblem, stages: Iterable[SolvedStage]) -> tuple[Reached, ...]:
    """Return the reached values in the user's units: jobs, seconds, joules; costs become
    positive."""
    many = len(problem.priorities) > 1
    return tuple(
        Reached(
            objective=stage.objective,
            value=_unit(problem, stage.objective, stage.value),
            bound=None if stage.bound is None else _unit(problem, stage.objective, stage.bound),
            priority=priority if many else None,
        )
        for stage, (_, priority) in zip(stages, stage_order(problem), strict=True)
    )


def _unit(problem: PlanningProblem, objective: PlanObjective, value: int) -> float:
    if objective is PlanObjective.THROUGHPUT:
        return value * problem.throughput_unit
    if objective is PlanObjective.ENERGY:
        return -value * problem.energy_unit
    if objective is PlanObjective.MAKESPAN:
        return -value / 1000
    return float(value if objective is PlanObjective.JOBS else -value)


@dataclass(frozen=True, slots=True)
class Cut:
    """One GPU of a group with the layout chosen for it."""

    group: GpuGroup
    state: GpuState
    option: LayoutOption


def allot(
    problem: PlanningProblem, cuts: Sequence[Cut], taken: Sequence[tuple[int, SlotKind]]
) -> tuple[GpuPlan, ...]:
    """Return each GPU's plan: its target layout and the jobs on its instances.

    ``taken``: for each placed job, the number of its type and its kind of slot. Instances that
    exist are filled before those to be created, so that as few as possible are created.
    """
    queues: dict[SlotKind, deque[int]] = defaultdict(deque)
    for type_, kind in sorted(taken):
        queues[kind].append(type_)
    names = [deque(t.names()) for t in problem.types]
    slots = sorted(
        ((slot.created, n, slot) for n, cut in enumerate(cuts) for slot in _slots(cut)),
        key=lambda item: (item[0], item[1], item[2].instance),
    )
    placements: dict[int, list[SlicePlacement]] = defaultdict(list)
    for _, n, slot in slots:
        view = cuts[n].group.view
        queue = queues[SlotKind(view.geometry.gpu, slot.instance.profile, slot.ready_ms)]
        if queue:
            type_ = queue.popleft()
            placements[n].append(_placement(problem, view, slot, type_, names[type_].popleft()))
    return tuple(_trimmed(cut, tuple(sorted(placements[n], key=lambda p: p.instance)))
                 for n, cut in enumerate(cuts))  # fmt: skip


def _slots(cut: Cut) -> list[Slot]:
    """Return the slots that the chosen option offers; a frozen GPU's option may offer only some of
    them."""
    left = dict(cut.option.counts)
    slots = []
    for slot in cut.group.view.slots(cut.option.layout):
        kind = SlotKind(cut.group.view.geometry.gpu, slot.instance.profile, slot.ready_ms)
        if left.get(kind, 0) > 0:
            left[kind] -= 1
            slots.append(slot)
    return slots


def _placement(
    problem: PlanningProblem, view: GpuView, slot: Slot, type_: int, name: str
) -> SlicePlacement:
    option = problem.types[type_].members[0].on(view.geometry, slot.instance.profile)
    assert option is not None  # noqa: S101 - the slot was chosen because there is one
    ready_s = slot.ready_ms / 1000
    return SlicePlacement(
        job=name,
        instance=slot.instance,
        ready_s=ready_s,
        finish_s=None if option.runtime_s is None else ready_s + option.runtime_s,
        throughput=option.throughput,
        energy_j=option.energy_j,
    )


def _trimmed(cut: Cut, placements: tuple[SlicePlacement, ...]) -> GpuPlan:
    geometry = cut.group.view.geometry
    before = cut.state.layout
    needed = {p.instance for p in placements}
    target = Layout(
        tuple(i for i in cut.option.layout.instances if i in needed or i in before.instances)
    )
    for instance in before.instances:
        if instance not in target.instances:
            wider = target.plus(instance)
            if wider.problem(geometry) is None:
                target = wider
    return GpuPlan(cut.state, target, placements)


def unplaced(
    problem: PlanningProblem, taken: Sequence[tuple[int, SlotKind]]
) -> tuple[UnplacedJobs, ...]:
    """Return the jobs that got no slice, grouped by name and reason."""
    used = Counter(type_ for type_, _ in taken)
    reasons: Counter[tuple[str, str]] = Counter()
    for type_, t in enumerate(problem.types):
        left = t.names()[used[type_] :]
        if left:
            reason = _reason(problem, type_)
            reasons.update((name, reason) for name in left)
    return tuple(UnplacedJobs(name, n, reason) for (name, reason), n in reasons.items())


def _reason(problem: PlanningProblem, type_: int) -> str:
    job = problem.types[type_].members[0]
    names = " or ".join(dict.fromkeys(o.profile for o in job.options))
    models = {s.geometry.gpu: s.geometry for g in problem.groups for s in g.members}
    makers = {
        model for model, geometry in models.items()
        if any(job.on(geometry, p.name) for p in geometry.profiles)
    }  # fmt: skip
    if not makers:
        return f"no GPU of the fleet ({', '.join(sorted(models))}) has a profile {names} for it"
    if not problem.edges[type_]:
        ends = [
            ms for g in problem.groups if g.view.geometry.gpu in makers for _, ms in g.view.ending
        ]
        known = f"; the first known end is in {format_seconds(min(ends) / 1000)}" if ends else ""
        return f"beside what is running no GPU can make a {names} now{known}"
    return f"every {names} that the layouts allow goes to jobs that serve the objectives better"


def gpu_sentence(plan: GpuPlan) -> str:
    """Return one sentence on what the plan changes on this GPU and for how many jobs."""
    running = plan.state.busy
    awaited = running.minus(*plan.target.instances)
    staying = running.minus(*awaited.instances)
    keep = f"; {_listed(staying)} in use" if staying.instances else ""
    keep += f"; waits for the end of {_listed(awaited)}" if awaited.instances else ""
    jobs = len(plan.placements)
    work = f"{jobs} job{'s' if jobs != 1 else ''}" if jobs else "no job"
    if not plan.recuts:
        return f"stays as it is, with {work} more{keep}" if jobs else f"stays as it is{keep}"
    creates = f"creates {_listed(Layout(plan.created))}" if plan.created else ""
    destroys = f"destroys {_listed(Layout(plan.destroyed))}" if plan.destroyed else ""
    return f"{' and '.join(part for part in (destroys, creates) if part)} for {work}{keep}"


def _listed(layout: Layout) -> str:
    return ", ".join(f"{n} x {name}" if n > 1 else name for name, n in layout.counts().items())


def plan_sentences(plan: MigPlan) -> tuple[str, ...]:
    """Return one sentence for each objective (value reached, distance to its bound), then the
    notes."""
    lines = []
    for r in plan.reached:
        unit = _UNITS.get(r.objective, "")
        which = f" (priority {r.priority})" if r.priority is not None else ""
        if r.gap == 0:
            proof = "proven best" + ("" if r is plan.reached[0] else ", given the lines above")
        elif r.gap is None:
            proof = "not proven"
        else:
            proof = f"within {100 * r.gap:.2g} % of the bound {r.bound:.6g}{unit}"
        lines.append(f"{_WORDS[r.objective]}{which}: {r.value:.6g}{unit}, {proof}")
    return (*lines, *plan.notes)
