"""Entry point of the MIG planners: from the jobs and GPU states to a plan.

The exact planner solves a single GPU, CP-SAT many GPUs, and the heuristic many GPUs where OR-tools
is missing or ``solver`` names it.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

from berth.pilot.errors import UsageError
from berth.pilot.progress import lasting
from berth.policies.mig import heuristic, planner_fleet
from berth.policies.mig.demands import Demand
from berth.policies.mig.layout import GpuState
from berth.policies.mig.plan import GpuPlan, MigPlan, PlanObjective, Reached, ordered
from berth.policies.mig.planner_gpu import LayoutTable, best_for_gpu
from berth.policies.mig.problem import PlanningProblem, build
from berth.policies.mig.solution import Cut, Solution, allot, in_units, stages_of, unplaced

SOLVERS = ("auto", "table", "cp-sat", "heuristic")


def plan(
    states: Sequence[GpuState],
    demands: Sequence[Demand],
    objectives: Sequence[str] | str = "jobs,throughput",
    *,
    now_s: float = 0.0,
    horizon_s: float = 0.0,
    solver: str = "auto",
    time_limit_s: float = 30.0,
    recut: bool = True,
) -> MigPlan:
    """Return a plan with a layout for each GPU and a slice for each placed job.

    Running instances stay in place. ``horizon_s``: the planner may wait for running instances known
    to end within this many seconds and re-cut them. ``recut=False``: only existing idle instances
    are given to jobs. The result is deterministic unless the time limit cuts a proof short. Raises
    UsageError for impossible input.
    """
    begin = time.perf_counter()
    order = ordered(objectives)
    _check(states, solver)
    problem = build(states, demands, order, now_s=now_s, horizon_s=horizon_s, recut=recut)
    used = _solver(solver, len(states))
    with lasting(f"planning slices, at most {time_limit_s:g} s", time_limit_s):
        if used == "table":
            solution = _exactly(problem)
        elif used == "cp-sat":
            solution = planner_fleet.solve(problem, time_limit_s=time_limit_s)
        else:
            solution = heuristic.solve(problem, time_limit_s=time_limit_s)
    taken = [(t, kind) for t, kind, n in solution.taken for _ in range(n)]
    gpus = sorted(allot(problem, _named(problem, solution), taken), key=lambda g: g.state.gpu)
    return MigPlan(
        gpus=tuple(gpus),
        unplaced=unplaced(problem, taken),
        order=order,
        reached=_as_cut(in_units(problem, solution.stages), gpus),
        solver=used,
        seconds=time.perf_counter() - begin,
        notes=tuple(
            f"{s.gpu}: MIG mode is off, so it cannot be cut"
            for s in sorted(states, key=lambda s: s.gpu)
            if not s.mig_enabled
        ),
    )


def _as_cut(reached: tuple[Reached, ...], gpus: Sequence[GpuPlan]) -> tuple[Reached, ...]:
    """Return the reached values with the final number of re-cuts (instances destroyed or created).

    The solver's number may be larger, because needless changes are dropped afterwards.
    """
    recuts = float(sum(g.recuts for g in gpus))
    return tuple(
        replace(r, value=recuts) if r.objective is PlanObjective.RECUTS else r for r in reached
    )


def _check(states: Sequence[GpuState], solver: str) -> None:
    if not states:
        raise UsageError("the fleet has no GPU")
    name, count = Counter(s.gpu for s in states).most_common(1)[0]
    if count > 1:
        raise UsageError(
            f"the GPU {name} is given twice",
            hint="name each NODE/INDEX, as `berth mig show --here --json` does",
        )
    if solver not in SOLVERS:
        raise UsageError(f"{solver!r} is not a solver", hint=f"known: {', '.join(SOLVERS)}")
    if solver == "table" and len(states) > 1:
        raise UsageError("the table plans one GPU; for more use cp-sat or heuristic")


def _solver(asked: str, gpus: int) -> str:
    if asked != "auto":
        return asked
    if gpus == 1:
        return "table"
    return "cp-sat" if find_spec("ortools") else "heuristic"


def _exactly(problem: PlanningProblem) -> Solution:
    (group,) = problem.groups
    choice = best_for_gpu(LayoutTable(group), problem, [t.count for t in problem.types])
    return Solution(
        chosen=((0, choice.option, 1),),
        taken=tuple((t, kind, 1) for t, kind in choice.taken),
        stages=stages_of(problem, choice.value),
    )


def _named(problem: PlanningProblem, solution: Solution) -> list[Cut]:
    members = [deque(group.members) for group in problem.groups]
    return [
        Cut(problem.groups[group], members[group].popleft(), option)
        for group, option, count in solution.chosen
        for _ in range(count)
    ]
