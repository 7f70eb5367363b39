"""MIG planner for many GPUs without a solver: solve each GPU exactly in turn, then improve in
rounds.

After the first pass, up to three further rounds plan each GPU again with the jobs that the other
GPUs leave. Nothing bounds how far the plan is from the best one.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from berth.policies.mig.plan import PlanObjective
from berth.policies.mig.planner_gpu import GpuChoice, LayoutTable, best_for_gpu
from berth.policies.mig.problem import PlanningProblem
from berth.policies.mig.solution import Solution, SolvedStage, stage_order

ROUNDS = 4


@dataclass
class _Seat:
    """One GPU with the layout and jobs chosen for it up to now."""

    group: int
    choice: GpuChoice | None = None


def solve(problem: PlanningProblem, *, time_limit_s: float) -> Solution:
    """Return a plan for many GPUs without OR-tools, in about ``time_limit_s`` seconds at most."""
    deadline = time.monotonic() + time_limit_s
    tables = [LayoutTable(group) for group in problem.groups]
    # GPUs with few possible layouts go first: they offer small slices only, the others any slice.
    order = sorted(range(len(tables)), key=lambda n: (len(problem.groups[n].options), n))
    seats = [_Seat(n) for n in order for _ in problem.groups[n].members]
    left = [t.count for t in problem.types]
    for turn in range(ROUNDS):
        changed = False
        for seat in seats:
            if turn and time.monotonic() > deadline - time_limit_s / 2:
                break
            before = seat.choice
            if before is not None:
                for type_, _ in before.taken:
                    left[type_] += 1
            choice = best_for_gpu(tables[seat.group], problem, left)
            if before is not None and choice.value <= before.value:
                choice = before
            changed = changed or choice is not before
            seat.choice = choice
            for type_, _ in choice.taken:
                left[type_] -= 1
        if not changed:
            break
    return _solution(problem, seats)


def _solution(problem: PlanningProblem, seats: list[_Seat]) -> Solution:
    choices = [(s.group, s.choice) for s in seats if s.choice is not None]
    options = Counter((group, choice.option) for group, choice in choices)
    taken = Counter(pair for _, choice in choices for pair in choice.taken)
    stages = []
    for n, (objective, _) in enumerate(stage_order(problem)):
        parts = [choice.value[n] for _, choice in choices]
        # The makespan is the latest end on any GPU, not the sum of the GPUs' ends.
        value = min(parts, default=0) if objective is PlanObjective.MAKESPAN else sum(parts)
        stages.append(SolvedStage(objective, value, None))
    return Solution(
        chosen=tuple((group, option, n) for (group, option), n in options.items()),
        taken=tuple((t, kind, n) for (t, kind), n in sorted(taken.items())),
        stages=tuple(stages),
    )
