"""Types of jobs that the objectives cannot tell apart are planned as one.

Five hundred jobs with five hundred different run times are a handful of types where only their
number counts. What the merged type takes is dealt out to its members afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from berth.policies.mig.demands import DemandType
from berth.policies.mig.objectives import Objective
from berth.policies.mig.offers import Kind
from berth.policies.mig.problem import Edge, Problem

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
