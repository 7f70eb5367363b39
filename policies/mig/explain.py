"""Why: for each GPU the reason for its layout, for each job left over the reason why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from berth.pilot.units import format_seconds
from berth.policies.mig.layout import Layout
from berth.policies.mig.objectives import Objective
from berth.policies.mig.offers import Kind
from berth.policies.mig.plan import GpuPlan, Plan, Unplaced
from berth.policies.mig.problem import Problem

_WORDS = {
    Objective.JOBS: "jobs placed",
    Objective.THROUGHPUT: "throughput",
    Objective.MAKESPAN: "makespan",
    Objective.ENERGY: "energy",
    Objective.GPUS: "GPUs with work",
    Objective.RECUTS: "instances re-cut",
}
_UNITS = {Objective.MAKESPAN: " s", Objective.ENERGY: " J"}


def unplaced(problem: Problem, taken: Sequence[tuple[int, Kind]]) -> tuple[Unplaced, ...]:
    """The jobs that got nothing, by name, each with one sentence."""
    used = Counter(type_ for type_, _ in taken)
    found: Counter[tuple[str, str]] = Counter()
    for type_, t in enumerate(problem.types):
        left = t.names()[used[type_] :]
        if left:
            reason = _reason(problem, type_)
            found.update((name, reason) for name in left)
    return tuple(Unplaced(name, n, reason) for (name, reason), n in found.items())


def _reason(problem: Problem, type_: int) -> str:
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
            ms for g in problem.groups if g.stand.geometry.gpu in makers for _, ms in g.stand.ending
        ]
        known = f"; the first known end is in {format_seconds(min(ends) / 1000)}" if ends else ""
        return f"beside what is running no GPU can make a {names} now{known}"
    return f"every {names} that the layouts allow goes to jobs that serve the objectives better"


def of_gpu(plan: GpuPlan) -> str:
    """One sentence: what happens to this GPU and what for."""
    running = plan.state.busy
    awaited = running.minus(*plan.target.instances)
    staying = running.minus(*awaited.instances)
    keep = f"; {_listed(staying)} in use" if staying.instances else ""
    keep += f"; waits for the end of {_listed(awaited)}" if awaited.instances else ""
    jobs = len(plan.placements)
    work = f"{jobs} job{'s' if jobs != 1 else ''}" if jobs else "no job"
    if not plan.recuts:
        return f"stays as it is, with {work} more{keep}" if jobs else f"stays as it is{keep}"
    made = f"creates {_listed(Layout(plan.created))}" if plan.created else ""
    gone = f"destroys {_listed(Layout(plan.destroyed))}" if plan.destroyed else ""
    return f"{' and '.join(x for x in (gone, made) if x)} for {work}{keep}"


def _listed(layout: Layout) -> str:
    return ", ".join(f"{n} x {name}" if n > 1 else name for name, n in layout.counts().items())


def of_plan(plan: Plan) -> tuple[str, ...]:
    """Sentences about the whole: what is reached, how far from the best, by what."""
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
