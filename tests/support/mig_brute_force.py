"""The planner's answer for one GPU the slow way: every layout, every way to give jobs to slots."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from berth.policies.mig import GpuState, Layout, Running, lookup
from berth.policies.mig.demands import Demand, SliceOption
from berth.policies.mig.layout import enumerate_states
from berth.policies.mig.plan import PlanObjective, ordered
from berth.policies.mig.problem import PlanningProblem, SlotKind, build

Value = tuple[int, ...]
MODELS = ("A30", "A100-40GB", "H100-80GB", "RTX-PRO-6000")
ORDERS = (
    "jobs", "throughput", "jobs,throughput", "jobs,makespan,throughput", "energy", "makespan",
    "jobs,gpus,throughput", "jobs,recuts,throughput", "throughput,recuts", "jobs,energy,makespan",
    "recuts", "gpus",
)  # fmt: skip


def random_problem(seed: int) -> PlanningProblem:
    """One GPU with idle, running and soon ending instances, up to twelve jobs of four types."""
    dice = random.Random(seed)  # noqa: S311
    geometry = lookup(dice.choice(MODELS))
    layout = Layout()
    if dice.random() < 0.8:
        layout = dice.choice(enumerate_states(geometry).layouts)
    running = tuple(
        Running(i, dice.choice([None, dice.randint(1, 100)]))
        for i in layout.instances
        if dice.random() < 0.4
    )
    names = [p.name for p in geometry.profiles]
    pool = dice.sample(names, min(len(names), dice.randint(1, 4)))
    demands = [
        Demand(
            f"job{n}",
            tuple(
                SliceOption(name, None, dice.randint(0, 9), dice.randint(1, 50), dice.randint(0, 9))
                for name in dice.sample(pool, dice.randint(1, len(pool)))
            ),
            count=dice.randint(1, 3),
            priority=dice.randint(0, 1),
        )
        for n in range(dice.randint(1, 4))
    ]
    state = GpuState("gpu", geometry, layout, running)
    order = ordered(dice.choice(ORDERS))
    return build([state], demands, order, now_s=0.0, horizon_s=dice.choice([0.0, 0.0, 50.0]))


def best_value(problem: PlanningProblem) -> Value:
    """The lexicographically best value over all states and all assignments; one group of one.

    Assignments are looked at once for each set of slots; only the re-cuts differ between layouts
    with the same slots.
    """
    (group,) = problem.groups
    view = group.view
    gpu, now = view.geometry.gpu, set(view.layout.instances)
    fewest: dict[tuple[tuple[str, int], ...], int] = {}
    for layout in enumerate_states(view.geometry).layouts:
        then = set(layout.instances)
        if set(view.pinned.instances) <= then:
            if view.ending:
                there = [(s.instance.profile, s.ready_ms) for s in view.slots(layout)]
            else:
                free = then.difference(view.pinned.instances)
                there = [(i.profile, 0) for i in free]
            slots = tuple(sorted(there))
            recuts = len(now - then) + len(then - now)
            fewest[slots] = min(recuts, fewest.get(slots, recuts))
    return max(
        _value(problem, given, recuts, group.is_busy)
        for slots, recuts in fewest.items()
        for given in _assignments(problem, [SlotKind(gpu, p, ms) for p, ms in slots])
    )


def _assignments(
    problem: PlanningProblem, slots: Sequence[SlotKind]
) -> Iterator[tuple[tuple[int, SlotKind], ...]]:
    left = [t.count for t in problem.types]

    def extend(
        n: int, given: tuple[tuple[int, SlotKind], ...]
    ) -> Iterator[tuple[tuple[int, SlotKind], ...]]:
        if n == len(slots):
            yield given
            return
        yield from extend(n + 1, given)
        # Of equal slots the first ones take the types with the smaller numbers.
        least = given[-1][0] if given and n and slots[n - 1] == slots[n] == given[-1][1] else 0
        for type_ in range(least, len(left)):
            if left[type_] and slots[n] in problem.edges[type_]:
                left[type_] -= 1
                yield from extend(n + 1, (*given, (type_, slots[n])))
                left[type_] += 1

    yield from extend(0, ())


def _value(
    problem: PlanningProblem, given: tuple[tuple[int, SlotKind], ...], recuts: int, is_busy: bool
) -> Value:
    edges = [problem.edges[t][kind] for t, kind in given]
    found: list[int] = []
    for objective in problem.order:
        if objective is PlanObjective.JOBS:
            mine = [problem.types[t].priority for t, _ in given]
            found += [mine.count(p) for p in problem.priorities]
        elif objective is PlanObjective.THROUGHPUT:
            found.append(sum(e.throughput for e in edges))
        elif objective is PlanObjective.ENERGY:
            found.append(-sum(e.energy for e in edges))
        elif objective is PlanObjective.MAKESPAN:
            found.append(-max((e.finish_ms for e in edges), default=0))
        elif objective is PlanObjective.GPUS:
            found.append(-int(bool(given) or is_busy))
        else:
            found.append(-recuts)
    return tuple(found)
