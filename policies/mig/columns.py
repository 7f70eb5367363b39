"""The columns of the fleet model: for each bundle of GPUs the layouts that are worth offering.

A column is left out when another one of the same bundle offers at least its slots for no more
re-cuts: whatever uses it could use the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from berth.policies.mig.demands import DemandType
from berth.policies.mig.plan import Objective
from berth.policies.mig.problem import Counts, Edge, Group, Kind, Offer, Problem


@dataclass(frozen=True, slots=True)
class Column:
    """One choice for a GPU: the slots that it gives and what that costs."""

    counts: Counts
    recuts: int
    offer: Offer


@dataclass(frozen=True, slots=True)
class Bundle:
    """GPUs with the same columns."""

    groups: tuple[int, ...]
    """Their groups, as numbers in the problem."""
    size: int
    is_busy: bool
    columns: tuple[Column, ...]


def bundles_by_slots(problem: Problem) -> list[Bundle]:
    """Groups merged that have the same slots to offer, whatever the re-cuts."""
    wanted = frozenset(kind for edges in problem.edges for kind in edges)
    merged: dict[object, list[int]] = defaultdict(list)
    for n, group in enumerate(problem.groups):
        s = group.stand
        key = (s.geometry.gpu, s.geometry.profiles, s.pinned, s.ending, s.frozen)
        merged[key if not s.frozen else n].append(n)
    made = []
    for numbers in merged.values():
        first = problem.groups[numbers[0]]
        columns = _columns(first, wanted, problem, free=True)
        size = sum(len(problem.groups[n].members) for n in numbers)
        made.append(Bundle(tuple(numbers), size, first.is_busy, columns))
    return made


def bundles_by_group(
    problem: Problem, merged: Sequence[Bundle], taking: Sequence[Sequence[int]]
) -> list[tuple[Bundle, list[int]]]:
    """One bundle for each group, with a start that takes what the merged solution takes."""
    wanted = frozenset(kind for edges in problem.edges for kind in edges)
    made = []
    for bundle, row in zip(merged, taking, strict=True):
        left = list(row)
        for n in bundle.groups:
            group = problem.groups[n]
            columns = _columns(group, wanted, problem, free=False)
            start = [0] * len(columns)
            for _ in group.members:
                place = _place(bundle.columns, left, columns)
                start[place] += 1
            made.append((Bundle((n,), len(group.members), group.is_busy, columns), start))
    return made


def _place(given: Sequence[Column], left: list[int], columns: Sequence[Column]) -> int:
    """Which column gives what one of the ``given`` still ``left`` gives, for fewest re-cuts."""
    best: tuple[int, int, int] | None = None
    for number, column in enumerate(given):
        if left[number]:
            for place, own in enumerate(columns):
                if (best is None or own.recuts < best[0]) and _covers(own.counts, column.counts):
                    best = (own.recuts, place, number)
    if best is None:
        return 0
    left[best[2]] -= 1
    return best[1]


def _covers(counts: Counts, needed: Counts) -> bool:
    have = dict(counts)
    return all(have.get(kind, 0) >= n for kind, n in needed)


def _columns(
    group: Group, wanted: frozenset[Kind], problem: Problem, *, free: bool
) -> tuple[Column, ...]:
    """The undominated columns; with ``free`` re-cuts cost nothing."""
    best: dict[Counts, Column] = {}
    for offer in group.offers:
        counts = tuple((kind, n) for kind, n in offer.counts if kind in wanted)
        recuts = 0 if free else offer.recuts
        if counts not in best or recuts < best[counts].recuts:
            best[counts] = Column(counts, recuts, offer)
    # Those with most slots first, so that of equals the first stays.
    columns = sorted(best.values(), key=lambda c: (c.recuts, -sum(n for _, n in c.counts)))
    kept = [c for c, keep in zip(columns, ~_dominated(columns), strict=True) if keep]
    if Objective.GPUS in problem.order:
        # To be left alone is a choice of its own: what is idle there stays, and counts for nothing.
        alone = Offer(group.stand.layout, 0, ())
        kept = [*(c for c in kept if c.counts), Column((), 0, alone)]
    return tuple(replace(c, recuts=c.offer.recuts) for c in kept)


def _dominated(columns: Sequence[Column]) -> NDArray[np.bool_]:
    kinds = sorted({kind for c in columns for kind, _ in c.counts})
    place = {kind: n for n, kind in enumerate(kinds)}
    table = np.zeros((len(columns), len(kinds) + 1), dtype=np.int16)
    for row, column in enumerate(columns):
        table[row, -1] = -column.recuts
        for kind, n in column.counts:
            table[row, place[kind]] = n
    covered = (table[:, None, :] >= table[None, :, :]).all(axis=2)
    return np.asarray(covered.sum(axis=0) > 1)  # each covers itself


Taken = tuple[tuple[int, Kind, int], ...]
"""Type of job, kind of slot and how many."""


def merged(problem: Problem) -> tuple[Problem, list[list[int]]]:
    """A problem with fewer types, and which types of the given one each of them stands for."""
    alike: dict[object, list[int]] = defaultdict(list)
    for type_, t in enumerate(problem.types):
        edges = problem.edges[type_]
        values = tuple((kind, _relevant(problem, edges[kind])) for kind in sorted(edges))
        alike[t.priority, values].append(type_)
    groups = list(alike.values())
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


def _relevant(problem: Problem, edge: Edge) -> tuple[int, ...]:
    known = {
        Objective.THROUGHPUT: edge.throughput,
        Objective.ENERGY: edge.energy,
        Objective.MAKESPAN: edge.finish_ms,
    }
    return tuple(known[o] for o in problem.order if o in known)


def dealt_out(problem: Problem, groups: list[list[int]], taken: Taken) -> Taken:
    """What the merged types take, as taken by the types of ``problem``."""
    left = [t.count for t in problem.types]
    found: dict[tuple[int, Kind], int] = defaultdict(int)
    for merged_type, kind, count in taken:
        rest = count
        for type_ in groups[merged_type]:
            mine = min(rest, left[type_])
            if mine:
                found[type_, kind] += mine
                left[type_] -= mine
                rest -= mine
    return tuple((t, k, n) for (t, k), n in sorted(found.items()))
