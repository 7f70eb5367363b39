"""The planner without a solver: GPU after GPU, each exactly, then each again beside the others.

Its bound for the first objective is a Lagrangian one: with a price on each type of job the GPUs
can be planned apart, and any prices give a valid bound. The gap is therefore honest, if not
always small; later objectives get none.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from berth.policies.mig.objectives import Objective
from berth.policies.mig.offers import Kind
from berth.policies.mig.planner_gpu import Choice, Table, best_for_gpu, job_value
from berth.policies.mig.problem import Problem
from berth.policies.mig.reached import Stage, steps
from berth.policies.mig.solution import Solution

ROUNDS = 4
PRICE_STEPS = 40


@dataclass
class _Seat:
    """One GPU with the choice made for it so far."""

    group: int
    choice: Choice | None = None


def solve(problem: Problem, *, time_limit_s: float) -> Solution:
    """A plan for many GPUs without OR-tools; at most about ``time_limit_s``."""
    deadline = time.monotonic() + time_limit_s
    tables = [Table(group) for group in problem.groups]
    seats = [_Seat(n) for n, group in enumerate(problem.groups) for _ in group.members]
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
    return _solution(problem, seats, _bound(problem, tables, deadline))


def _solution(problem: Problem, seats: list[_Seat], bound: int | None) -> Solution:
    choices = [(s.group, s.choice) for s in seats if s.choice is not None]
    offers = Counter((group, choice.offer) for group, choice in choices)
    taken = Counter(pair for _, choice in choices for pair in choice.taken)
    stages = []
    for n, (objective, _) in enumerate(steps(problem)):
        parts = [choice.value[n] for _, choice in choices]
        # The last end of all counts, not the sum of the ends.
        value = min(parts, default=0) if objective is Objective.MAKESPAN else sum(parts)
        stages.append(Stage(objective, value, bound if n == 0 else None))
    return Solution(
        chosen=tuple((group, offer, n) for (group, offer), n in offers.items()),
        taken=tuple((t, kind, n) for (t, kind), n in sorted(taken.items())),
        stages=tuple(stages),
    )


def _bound(problem: Problem, tables: list[Table], deadline: float) -> int | None:
    """The least Lagrangian bound found on the first objective (its highest priority)."""
    first = Problem(
        problem.types, problem.groups, problem.edges, (problem.order[0],), problem.priorities[:1],
        problem.throughput_unit, problem.energy_unit,
    )  # fmt: skip
    counts = [t.count for t in problem.types]
    most = [_most(first, type_) for type_ in range(len(counts))]
    prices = [0.0] * len(counts)
    best: int | None = None
    for turn in range(PRICE_STEPS):
        if turn and time.monotonic() > deadline:
            break
        whole = [(-(-int(p * 1000) // 1000),) for p in prices]
        total = sum(n * p[0] for n, p in zip(counts, whole, strict=True))
        used: Counter[int] = Counter()
        for table, group in zip(tables, problem.groups, strict=True):
            choice = best_for_gpu(table, first, counts, whole)
            total += choice.value[0] * len(group.members)
            for type_, _ in choice.taken:
                used[type_] += len(group.members)
        best = total if best is None else min(best, total)
        step = 1.0 / (turn + 2)
        for type_, n in enumerate(counts):
            excess = (used[type_] - n) / max(1, n)
            prices[type_] = min(
                most[type_], max(0.0, prices[type_] + step * most[type_] * max(-1, min(1, excess)))
            )
    # No more than every job at its best, either.
    return (
        None if best is None else min(best, sum(n * m for n, m in zip(counts, most, strict=True)))
    )


def _most(problem: Problem, type_: int) -> int:
    edges: dict[Kind, object] = dict(problem.edges[type_])
    values = [job_value(problem, problem.order, type_, problem.edges[type_][k])[0] for k in edges]
    return max([0, *values])
