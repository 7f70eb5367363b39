"""What a plan reaches in the user's units, from the planner's integers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from berth.policies.mig.objectives import Objective
from berth.policies.mig.plan import Reached
from berth.policies.mig.problem import Problem


@dataclass(frozen=True, slots=True)
class Stage:
    """One objective (or one priority of ``jobs``), larger is better, in the problem's integers."""

    objective: Objective
    value: int
    bound: int | None
    """No solution is above it; None: not worked out."""


def stages_of(problem: Problem, value: tuple[int, ...]) -> tuple[Stage, ...]:
    """The stages of a proven value, as the exact planner gives it."""
    numbers = iter(value)
    return tuple(Stage(o, n, n) for o, _ in steps(problem) for n in (next(numbers),))


def steps(problem: Problem) -> list[tuple[Objective, int | None]]:
    """The objectives in order, ``jobs`` once for each priority."""
    return [
        (o, p)
        for o in problem.order
        for p in (problem.priorities if o is Objective.JOBS else (None,))
    ]


def in_units(problem: Problem, stages: Iterable[Stage]) -> tuple[Reached, ...]:
    """Jobs as jobs, seconds as seconds; costs as positive numbers."""
    many = len(problem.priorities) > 1
    return tuple(
        Reached(
            objective=stage.objective,
            value=_unit(problem, stage.objective, stage.value),
            bound=None if stage.bound is None else _unit(problem, stage.objective, stage.bound),
            priority=priority if many else None,
        )
        for stage, (_, priority) in zip(stages, steps(problem), strict=True)
    )


def _unit(problem: Problem, objective: Objective, value: int) -> float:
    if objective is Objective.THROUGHPUT:
        return value * problem.throughput_unit
    if objective is Objective.ENERGY:
        return -value * problem.energy_unit
    if objective is Objective.MAKESPAN:
        return -value / 1000
    return float(value if objective is Objective.JOBS else -value)
