"""MIG planner for many GPUs without a solver: solve each GPU exactly in turn, then improve in
rounds.

After the first pass, up to three further rounds plan each GPU again with the jobs that the other
GPUs leave. Only the first objective gets an upper bound that holds for every plan, by Lagrangian
duality: with a price on each kind of slot, each GPU chooses the layout with the highest total
price, and each job chooses the slot with the highest value minus price. For any prices, the sum of
the two is at least the value of the best plan. Subgradient steps move the prices; the least sum
seen is the bound. At the best prices it equals the bound of the linear relaxation of the model in
``planner_fleet``.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from berth.policies.mig.plan import Objective
from berth.policies.mig.planner_gpu import Choice, Table, best_for_gpu, job_value
from berth.policies.mig.problem import Problem, SlotKind
from berth.policies.mig.solution import Solution, Stage, stage_order

ROUNDS = 4


@dataclass
class _Seat:
    """One GPU with the layout and jobs chosen for it up to now."""

    group: int
    choice: Choice | None = None


def solve(problem: Problem, *, time_limit_s: float) -> Solution:
    """Return a plan for many GPUs without OR-tools, in about ``time_limit_s`` seconds at most."""
    deadline = time.monotonic() + time_limit_s
    tables = [Table(group) for group in problem.groups]
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
    return _solution(problem, seats, deadline)


def _solution(problem: Problem, seats: list[_Seat], deadline: float) -> Solution:
    choices = [(s.group, s.choice) for s in seats if s.choice is not None]
    options = Counter((group, choice.option) for group, choice in choices)
    taken = Counter(pair for _, choice in choices for pair in choice.taken)
    stages = []
    for n, (objective, _) in enumerate(stage_order(problem)):
        parts = [choice.value[n] for _, choice in choices]
        # The makespan is the latest end on any GPU, not the sum of the GPUs' ends.
        value = min(parts, default=0) if objective is Objective.MAKESPAN else sum(parts)
        bound = None if n else first_objective(problem, value, deadline=deadline)
        stages.append(Stage(objective, value, bound))
    return Solution(
        chosen=tuple((group, option, n) for (group, option), n in options.items()),
        taken=tuple((t, kind, n) for (t, kind), n in sorted(taken.items())),
        stages=tuple(stages),
    )


STEPS = 3000


def first_objective(problem: Problem, reached: int, *, deadline: float) -> int:
    """Return an upper bound on the first objective's value; for ``jobs``, of the highest
    priority only.

    ``reached``: the value of a known plan, so the bound is never below it. ``deadline``: when to
    stop,
    as a time of ``time.monotonic``.
    """
    kinds = sorted({kind for edges in problem.edges for kind in edges})
    values, jobs = _jobs(problem, kinds)
    layouts, starts, sizes = _layout_matrix(problem, kinds)
    if not kinds or not len(layouts):
        return 0
    best = math.inf
    prices = np.zeros(len(kinds))
    for step in range(STEPS):
        if step % 64 == 0 and step and time.monotonic() > deadline:
            break
        earned = layouts @ prices
        sold = np.maximum.reduceat(earned, starts)
        chosen = np.array([
            start + int(earned[start:end].argmax())
            for start, end in zip(starts, [*starts[1:], len(earned)], strict=True)
        ])  # fmt: skip
        left = values - prices
        buys = left.argmax(axis=1)
        gain = left[np.arange(len(jobs)), buys]
        buying = gain > 0
        total = float(sizes @ sold + jobs[buying] @ gain[buying])
        best = min(best, total)
        if math.floor(best + 1e-6) <= reached:
            break
        slope = sizes @ layouts[chosen] - np.bincount(
            buys[buying], weights=jobs[buying], minlength=len(kinds)
        )
        norm = float(slope @ slope)
        if norm == 0:
            break
        length = (total - reached) / norm / (1 + step / 200)
        prices = np.maximum(0.0, prices - length * slope)
    return max(reached, math.floor(best + 1e-6))


def _jobs(
    problem: Problem, kinds: list[SlotKind]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values = np.full((len(problem.types), len(kinds)), -np.inf)
    place = {kind: n for n, kind in enumerate(kinds)}
    for type_, edges in enumerate(problem.edges):
        for kind, edge in edges.items():
            values[type_, place[kind]] = job_value(problem, problem.order[:1], type_, edge)[0]
    return values, np.array([float(t.count) for t in problem.types])


def _layout_matrix(
    problem: Problem, kinds: list[SlotKind]
) -> tuple[NDArray[np.float64], list[int], NDArray[np.float64]]:
    place = {kind: n for n, kind in enumerate(kinds)}
    starts: list[int] = []
    rows: list[list[float]] = []
    for group in problem.groups:
        starts.append(len(rows))
        for option in group.options:
            row = [0.0] * len(kinds)
            for kind, n in option.counts:
                if kind in place:
                    row[place[kind]] = float(n)
            rows.append(row)
    sizes = np.array([float(len(g.members)) for g in problem.groups])
    return np.array(rows), starts, sizes
