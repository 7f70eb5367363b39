"""The columns of the fleet planner's model, and job types merged where the objectives allow.

A column is one layout that is worth choosing for a bundle of equal GPUs. A column is left out when
another column of the bundle offers at least its slots for no more re-cuts. Job types with equal
values for every objective are planned as one type: if only their number counts, five hundred jobs
with different run times become a few types. The slots of a merged type are divided among its
members afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from berth.policies.mig.demands import DemandType
from berth.policies.mig.plan import PlanObjective
from berth.policies.mig.problem import (
    Counts,
    Edge,
    GpuGroup,
    LayoutOption,
    PlanningProblem,
    SlotKind,
)


@dataclass(frozen=True, slots=True)
class LayoutColumn:
    """One possible layout for a GPU of a bundle: its slots, and the instances to destroy or
    create."""

    counts: Counts
    recuts: int
    option: LayoutOption


@dataclass(frozen=True, slots=True)
class GroupBundle:
    """GPUs of one or more groups that share the same columns."""

    groups: tuple[int, ...]
    """Numbers of the bundled groups in the problem."""
    size: int
    is_busy: bool
    columns: tuple[LayoutColumn, ...]


def bundles_by_slots(problem: PlanningProblem) -> list[GroupBundle]:
    """Return bundles of the groups that can offer the same slots, ignoring what must be
    re-partitioned."""
    wanted = frozenset(kind for edges in problem.edges for kind in edges)
    merged: dict[object, list[int]] = defaultdict(list)
    for n, group in enumerate(problem.groups):
        view = group.view
        key = (view.geometry.gpu, view.geometry.profiles, view.pinned, view.ending, view.frozen)
        merged[key if not view.frozen else n].append(n)
    bundles = []
    for numbers in merged.values():
        first = problem.groups[numbers[0]]
        columns = _columns(first, wanted, problem, free=True)
        size = sum(len(problem.groups[n].members) for n in numbers)
        bundles.append(GroupBundle(tuple(numbers), size, first.is_busy, columns))
    return bundles


def bundles_by_group(
    problem: PlanningProblem, merged: Sequence[GroupBundle], taking: Sequence[Sequence[int]]
) -> list[tuple[GroupBundle, list[int]]]:
    """Return one bundle for each group with a start solution that matches the merged solution.

    ``taking``: for each merged bundle, how many of its GPUs take each column. The start solution
    has the same form.
    """
    wanted = frozenset(kind for edges in problem.edges for kind in edges)
    bundles = []
    for bundle, row in zip(merged, taking, strict=True):
        left = list(row)
        for n in bundle.groups:
            group = problem.groups[n]
            columns = _columns(group, wanted, problem, free=False)
            start = [0] * len(columns)
            for _ in group.members:
                number = _cheapest_column(bundle.columns, left, columns)
                start[number] += 1
            bundles.append((GroupBundle((n,), len(group.members), group.is_busy, columns), start))
    return bundles


def _cheapest_column(
    merged_columns: Sequence[LayoutColumn], left: list[int], columns: Sequence[LayoutColumn]
) -> int:
    """Return the index of the column that covers a merged column's slots with fewest instance
    changes.

    ``left``: how many GPUs each merged column still needs; the covered one is decreased by one. The
    result is 0 where no column covers any.
    """
    best: tuple[int, int, int] | None = None
    for number, column in enumerate(merged_columns):
        if left[number]:
            for index, own in enumerate(columns):
                if (best is None or own.recuts < best[0]) and _covers(own.counts, column.counts):
                    best = (own.recuts, index, number)
    if best is None:
        return 0
    left[best[2]] -= 1
    return best[1]


def _covers(counts: Counts, needed: Counts) -> bool:
    have = dict(counts)
    return all(have.get(kind, 0) >= n for kind, n in needed)


def _columns(
    group: GpuGroup, wanted: frozenset[SlotKind], problem: PlanningProblem, *, free: bool
) -> tuple[LayoutColumn, ...]:
    """Return the columns of a group that no other column dominates in slots and re-cuts.

    ``free``: re-cuts (instances destroyed or created) are not compared.
    """
    best: dict[Counts, LayoutColumn] = {}
    for option in group.options:
        counts = tuple((kind, n) for kind, n in option.counts if kind in wanted)
        recuts = 0 if free else option.recuts
        if counts not in best or recuts < best[counts].recuts:
            best[counts] = LayoutColumn(counts, recuts, option)
    # Columns with most slots first: of several equal columns, the first is kept.
    columns = sorted(best.values(), key=lambda c: (c.recuts, -sum(n for _, n in c.counts)))
    undominated = [c for c, is_kept in zip(columns, ~_dominated(columns), strict=True) if is_kept]
    if PlanObjective.GPUS in problem.order:
        # An unused GPU is a choice of its own: its idle instances stay and offer no slot.
        alone = LayoutOption(group.view.layout, 0, ())
        undominated = [*(c for c in undominated if c.counts), LayoutColumn((), 0, alone)]
    return tuple(replace(c, recuts=c.option.recuts) for c in undominated)


def _dominated(columns: Sequence[LayoutColumn]) -> NDArray[np.bool_]:
    kinds = sorted({kind for c in columns for kind, _ in c.counts})
    place = {kind: n for n, kind in enumerate(kinds)}
    table = np.zeros((len(columns), len(kinds) + 1), dtype=np.int16)
    for row, column in enumerate(columns):
        table[row, -1] = -column.recuts
        for kind, n in column.counts:
            table[row, place[kind]] = n
    covered = (table[:, None, :] >= table[None, :, :]).all(axis=2)
    return np.asarray(covered.sum(axis=0) > 1)  # each covers itself


Taken = tuple[tuple[int, SlotKind, int], ...]
"""Number of the job type, kind of slot, and how many of these jobs take such a slot."""


def merged(problem: PlanningProblem) -> tuple[PlanningProblem, list[list[int]]]:
    """Return the problem with equal job types merged, and the original types' numbers per merged
    type."""
    equal_types: dict[object, list[int]] = defaultdict(list)
    for type_, t in enumerate(problem.types):
        edges = problem.edges[type_]
        values = tuple((kind, _relevant(problem, edges[kind])) for kind in sorted(edges))
        equal_types[t.priority, values].append(type_)
    groups = list(equal_types.values())
    types = tuple(
        DemandType(
            options=problem.types[numbers[0]].options,
            priority=problem.types[numbers[0]].priority,
            members=tuple(d for n in numbers for d in problem.types[n].members),
        )
        for numbers in groups
    )
    return replace(
        problem, types=types, edges=tuple(problem.edges[numbers[0]] for numbers in groups)
    ), groups


def _relevant(problem: PlanningProblem, edge: Edge) -> tuple[int, ...]:
    known = {
        PlanObjective.THROUGHPUT: edge.throughput,
        PlanObjective.ENERGY: edge.energy,
        PlanObjective.MAKESPAN: edge.finish_ms,
    }
    return tuple(known[o] for o in problem.order if o in known)


def dealt_out(problem: PlanningProblem, groups: list[list[int]], taken: Taken) -> Taken:
    """Return the slots taken by merged types, divided among the original types of ``problem``."""
    left = [t.count for t in problem.types]
    counts: dict[tuple[int, SlotKind], int] = defaultdict(int)
    for merged_type, kind, count in taken:
        rest = count
        for type_ in groups[merged_type]:
            share = min(rest, left[type_])
            if share:
                counts[type_, kind] += share
                left[type_] -= share
                rest -= share
    return tuple((t, k, n) for (t, k), n in sorted(counts.items()))
