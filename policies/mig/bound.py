"""How good any plan for a fleet could be at most, without a solver.

With a price on each kind of slot, GPUs and jobs can be looked at apart: a GPU sells the offer that
brings most, a job buys the slot that leaves it most. Whatever the prices, what both earn together
is never less than the best plan is worth (Lagrangian duality); the prices are moved by the
subgradient, and the least sum found is the bound. At the best prices it is the bound of the column
model's linear relaxation.
"""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from berth.policies.mig.offers import Kind
from berth.policies.mig.planner_gpu import job_value
from berth.policies.mig.problem import Problem

STEPS = 3000


def first_objective(problem: Problem, reached: int, *, deadline: float) -> int:
    """A bound on the first objective (its highest priority); ``reached`` is known to be possible.

    ``deadline`` is a time of ``time.monotonic``.
    """
    kinds = sorted({kind for edges in problem.edges for kind in edges})
    values, jobs = _jobs(problem, kinds)
    offers, starts, sizes = _offers(problem, kinds)
    if not kinds or not len(offers):
        return 0
    best = math.inf
    prices = np.zeros(len(kinds))
    for step in range(STEPS):
        if step % 64 == 0 and step and time.monotonic() > deadline:
            break
        earned = offers @ prices
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
        slope = sizes @ offers[chosen] - np.bincount(
            buys[buying], weights=jobs[buying], minlength=len(kinds)
        )
        norm = float(slope @ slope)
        if norm == 0:
            break
        length = (total - reached) / norm / (1 + step / 200)
        prices = np.maximum(0.0, prices - length * slope)
    return max(reached, math.floor(best + 1e-6))


def _jobs(problem: Problem, kinds: list[Kind]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values = np.full((len(problem.types), len(kinds)), -np.inf)
    place = {kind: n for n, kind in enumerate(kinds)}
    for type_, edges in enumerate(problem.edges):
        for kind, edge in edges.items():
            values[type_, place[kind]] = job_value(problem, problem.order[:1], type_, edge)[0]
    return values, np.array([float(t.count) for t in problem.types])


def _offers(
    problem: Problem, kinds: list[Kind]
) -> tuple[NDArray[np.float64], list[int], NDArray[np.float64]]:
    place = {kind: n for n, kind in enumerate(kinds)}
    starts: list[int] = []
    rows: list[list[float]] = []
    for group in problem.groups:
        starts.append(len(rows))
        for offer in group.offers:
            row = [0.0] * len(kinds)
            for kind, n in offer.counts:
                if kind in place:
                    row[place[kind]] = float(n)
            rows.append(row)
    sizes = np.array([float(len(g.members)) for g in problem.groups])
    return np.array(rows), starts, sizes
