"""The planner's answer for one GPU the slow way: every layout, every way to give jobs to slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from berth.policies.mig.layout import Layout
from berth.policies.mig.objectives import Objective
from berth.policies.mig.offers import Kind
from berth.policies.mig.problem import Problem
from berth.policies.mig.states import enumerate_states

Value = tuple[int, ...]


def best_value(problem: Problem) -> Value:
    """The lexicographically best value over all states and all assignments; one group of one."""
    (group,) = problem.groups
    stand = group.stand
    best: Value | None = None
    for layout in enumerate_states(stand.geometry).layouts:
        if not set(stand.pinned.instances) <= set(layout.instances):
            continue
        now, then = set(stand.layout.instances), set(layout.instances)
        recuts = len(now - then) + len(then - now)
        slots = [Kind(stand.geometry.gpu, s.instance.profile, s.ready_ms)
                 for s in stand.slots(Layout(tuple(sorted(then))))]  # fmt: skip
        for given in _assignments(problem, slots):
            value = _value(problem, given, recuts, group.is_busy)
            if best is None or value > best:
                best = value
    assert best is not None
    return best


def _assignments(problem: Problem, slots: Sequence[Kind]) -> Iterator[tuple[tuple[int, Kind], ...]]:
    left = [t.count for t in problem.types]

    def extend(
        n: int, given: tuple[tuple[int, Kind], ...]
    ) -> Iterator[tuple[tuple[int, Kind], ...]]:
        if n == len(slots):
            yield given
            return
        yield from extend(n + 1, given)
        for type_ in range(len(left)):
            if left[type_] and slots[n] in problem.edges[type_]:
                left[type_] -= 1
                yield from extend(n + 1, (*given, (type_, slots[n])))
                left[type_] += 1

    yield from extend(0, ())


def _value(
    problem: Problem, given: tuple[tuple[int, Kind], ...], recuts: int, is_busy: bool
) -> Value:
    edges = [problem.edges[t][kind] for t, kind in given]
    found: list[int] = []
    for objective in problem.order:
        if objective is Objective.JOBS:
            mine = [problem.types[t].priority for t, _ in given]
            found += [mine.count(p) for p in problem.priorities]
        elif objective is Objective.THROUGHPUT:
            found.append(sum(e.throughput for e in edges))
        elif objective is Objective.ENERGY:
            found.append(-sum(e.energy for e in edges))
        elif objective is Objective.MAKESPAN:
            found.append(-max((e.finish_ms for e in edges), default=0))
        elif objective is Objective.GPUS:
            found.append(-int(bool(given) or is_busy))
        else:
            found.append(-recuts)
    return tuple(found)
