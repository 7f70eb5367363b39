"""The planner without a solver: GPU after GPU, each exactly, then each again beside the others.

The first objective gets a bound (``bound``), so its gap is honest; later ones get none.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from berth.policies.mig.bound import first_objective
from berth.policies.mig.objectives import Objective
from berth.policies.mig.planner_gpu import Choice, Table, best_for_gpu
from berth.policies.mig.problem import Problem
from berth.policies.mig.reached import Stage, steps
from berth.policies.mig.solution import Solution

ROUNDS = 4


@dataclass
class _Seat:
    """One GPU with the choice made for it so far."""

    group: int
    choice: Choice | None = None


def solve(problem: Problem, *, time_limit_s: float) -> Solution:
    """A plan for many GPUs without OR-tools; at most about ``time_limit_s``."""
    deadline = time.monotonic() + time_limit_s
    tables = [Table(group) for group in problem.groups]
    # Those with little choice first: they can use only small slices, the others any.
    order = sorted(range(len(tables)), key=lambda n: (len(problem.groups[n].offers), n))
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
            found = best_for_gpu(tables[seat.group], problem, left)
            if before is not None and found.value <= before.value:
                found = before
            changed = changed or found is not before
            seat.choice = found
            for type_, _ in found.taken:
                left[type_] -= 1
        if not changed:
            break
    return _solution(problem, seats, deadline)


def _solution(problem: Problem, seats: list[_Seat], deadline: float) -> Solution:
    choices = [(s.group, s.choice) for s in seats if s.choice is not None]
    offers = Counter((group, choice.offer) for group, choice in choices)
    taken = Counter(pair for _, choice in choices for pair in choice.taken)
    stages = []
    for n, (objective, _) in enumerate(steps(problem)):
        parts = [choice.value[n] for _, choice in choices]
        # The last end of all counts, not the sum of the ends.
        value = min(parts, default=0) if objective is Objective.MAKESPAN else sum(parts)
        bound = None if n else first_objective(problem, value, deadline=deadline)
        stages.append(Stage(objective, value, bound))
    return Solution(
        chosen=tuple((group, offer, n) for (group, offer), n in offers.items()),
        taken=tuple((t, kind, n) for (t, kind), n in sorted(taken.items())),
        stages=tuple(stages),
    )
