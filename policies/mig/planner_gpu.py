"""Exact MIG planner for one GPU: dynamic programming over the numbers of used slots of each kind.

Any part of a legal layout is legal, so the table's entries are only the slot counts that some
layout offers. Each job is one step of the program: the job takes a slot of some kind or none. Each
entry keeps its lexicographically best value. The re-cuts and whether the GPU is used depend only
on the entry's slot counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from berth.policies.mig.plan import PlanObjective
from berth.policies.mig.problem import Edge, GpuGroup, LayoutOption, PlanningProblem, SlotKind

Value = tuple[int, ...]
"""The objectives' values in order of importance; compared lexicographically, larger is better."""

_BITS = 4
"""Bits for one slot kind in a packed count; a GPU has at most 7 instances, so the top is free."""


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """The best layout of one GPU and the jobs on its slots."""

    option: LayoutOption
    taken: tuple[tuple[int, SlotKind], ...]
    """For each placed job, the number of its type in the problem and its kind of slot."""
    value: Value


@dataclass(frozen=True, slots=True)
class _PackedJob:
    """One job with the value that it adds on each kind of slot."""

    type_: int
    gains: tuple[tuple[int, Value], ...]
    """Pairs of a packed slot kind (``LayoutTable.unit``) and the value that the job adds there."""


class LayoutTable:
    """The layouts that the GPUs of one group can have, with slot counts packed into integers."""

    def __init__(self, group: GpuGroup) -> None:
        self.group = group
        self.kinds = sorted({kind for o in group.options for kind, _ in o.counts})
        self.unit = {kind: 1 << (_BITS * n) for n, kind in enumerate(self.kinds)}
        self.guard = sum(unit << (_BITS - 1) for unit in self.unit.values())
        self.slots = max((sum(n for _, n in o.counts) for o in group.options), default=0)
        by_cost = sorted(group.options, key=lambda o: (o.recuts, o.layout))
        self.packed = [(sum(self.unit[k] * n for k, n in o.counts), o) for o in by_cost]
        self.feasible = frozenset(packed for packed, _ in self.packed)

    def cheapest(self, used: int) -> LayoutOption:
        """Return the layout with at least the slots ``used`` that changes the fewest instances.

        ``used``: packed slot counts.
        """
        for packed, option in self.packed:
            if ((packed | self.guard) - used) & self.guard == self.guard:
                return option
        raise AssertionError("used slots that no layout has")


def best_for_gpu(table: LayoutTable, problem: PlanningProblem, left: Sequence[int]) -> GpuChoice:
    """Return the best layout and jobs for one GPU of this group; ``left``: remaining jobs of each
    type.

    The values are compared lexicographically in the problem's order of objectives. With makespan
    among them, the least time limit is chosen at which the objectives before it keep their best
    values.
    """
    if PlanObjective.MAKESPAN not in problem.order:
        return _solve(table, problem, problem.order, left)
    place = problem.order.index(PlanObjective.MAKESPAN)
    before = problem.order[:place]
    rest = tuple(o for o in problem.order if o is not PlanObjective.MAKESPAN)
    best = _solve(table, problem, before, left)
    ends = sorted({e.finish_ms for edges in problem.edges for e in edges.values()} | {0})
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        trial = _solve(table, problem.without(ends[middle]), before, left)
        low, high = (low, middle) if trial.value == best.value else (middle + 1, high)
    limited = problem.without(ends[low])
    choice = _solve(table, limited, rest, left)
    width = _width(before, problem)
    last_ms = max((problem.edges[t][k].finish_ms for t, k in choice.taken), default=0)
    value = (*choice.value[:width], -last_ms, *choice.value[width:])
    return GpuChoice(choice.option, choice.taken, value)


def _width(order: Sequence[PlanObjective], problem: PlanningProblem) -> int:
    return sum(len(problem.priorities) if o is PlanObjective.JOBS else 1 for o in order)


def job_value(
    problem: PlanningProblem, order: Sequence[PlanObjective], type_: int, edge: Edge
) -> Value:
    """Return what one job on one slot adds to each objective (to each priority, for ``jobs``)."""
    parts: list[int] = []
    for objective in order:
        if objective is PlanObjective.JOBS:
            own_priority = problem.types[type_].priority
            parts.extend(int(own_priority == p) for p in problem.priorities)
        elif objective is PlanObjective.THROUGHPUT:
            parts.append(edge.throughput)
        elif objective is PlanObjective.ENERGY:
            parts.append(-edge.energy)
        else:
            parts.append(0)
    return tuple(parts)


def _solve(
    table: LayoutTable,
    problem: PlanningProblem,
    order: Sequence[PlanObjective],
    left: Sequence[int],
) -> GpuChoice:
    zero = (0,) * _width(order, problem)
    best: dict[int, tuple[Value, tuple[object, ...]]] = {0: (zero, ())}
    for job in _jobs_worth_trying(table, problem, order, left):
        grown: dict[int, tuple[Value, tuple[object, ...]]] = {}
        for used, (value, chain) in best.items():
            for unit, gain in job.gains:
                after = used + unit
                if after not in table.feasible:
                    continue
                total = tuple(map(sum, zip(value, gain, strict=True)))
                known = grown.get(after) or best.get(after)
                if known is None or total > known[0]:
                    grown[after] = (total, (chain, job.type_, unit))
        best.update(grown)
    return _pick(table, order, problem, best)


def _pick(
    table: LayoutTable,
    order: Sequence[PlanObjective],
    problem: PlanningProblem,
    best: Mapping[int, tuple[Value, tuple[object, ...]]],
) -> GpuChoice:
    gpus = (
        _width(order[: order.index(PlanObjective.GPUS)], problem)
        if PlanObjective.GPUS in order
        else -1
    )
    cuts = (
        _width(order[: order.index(PlanObjective.RECUTS)], problem)
        if PlanObjective.RECUTS in order
        else -1
    )
    chosen: tuple[Value, int, LayoutOption] | None = None
    # The values without re-cuts are upper bounds: stop when one is no better than the best so far.
    hopeful = sorted(
        ((_put(v, gpus, -int(bool(u) or table.group.is_busy)), u) for u, (v, _) in best.items()),
        key=lambda item: (tuple(-x for x in item[0]), item[1]),
    )
    for hope, used in hopeful:
        if chosen is not None and hope <= chosen[0]:
            break
        option = table.cheapest(used)
        value = _put(hope, cuts, -option.recuts)
        if chosen is None or value > chosen[0]:
            chosen = (value, used, option)
    assert chosen is not None  # noqa: S101 - the empty entry is always there
    kinds = {unit: kind for kind, unit in table.unit.items()}
    taken = tuple((t, kinds[unit]) for t, unit in _unwound(best[chosen[1]][1]))
    return GpuChoice(chosen[2], taken, chosen[0])


def _put(value: Value, place: int, number: int) -> Value:
    return value if place < 0 else (*value[:place], number, *value[place + 1 :])


def _unwound(chain: tuple[object, ...]) -> Iterator[tuple[int, int]]:
    while chain:
        before, type_, unit = chain
        assert isinstance(before, tuple) and isinstance(type_, int) and isinstance(unit, int)  # noqa: S101, PT018
        yield type_, unit
        chain = before


def _jobs_worth_trying(
    table: LayoutTable,
    problem: PlanningProblem,
    order: Sequence[PlanObjective],
    left: Sequence[int],
) -> list[_PackedJob]:
    """Return, for each kind of slot, the best jobs, as many as the GPU has slots.

    Any other job on this kind of slot could be replaced by one of the returned jobs without loss.
    """
    gains: list[dict[SlotKind, Value]] = []
    for type_, edges in enumerate(problem.edges):
        own_gains = {}
        if left[type_] > 0:
            for kind in table.kinds:
                if kind in edges:
                    value = job_value(problem, order, type_, edges[kind])
                    own_gains[kind] = value
        gains.append(own_gains)
    wanted: dict[int, int] = {}
    for kind in table.kinds:
        able = [(own_gains[kind], -t) for t, own_gains in enumerate(gains) if kind in own_gains]
        room = table.slots
        for _, minus_type in nlargest(table.slots, able):
            type_ = -minus_type
            units = min(room, left[type_])
            wanted[type_] = max(wanted.get(type_, 0), units)
            room -= units
            if not room:
                break
    return [
        _PackedJob(t, tuple((table.unit[k], v) for k, v in gains[t].items()))
        for t in sorted(wanted)
        for _ in range(wanted[t])
    ]
