"""Sends a few jobs where the most is learnt, at a stated expense (``policy.explore``).

A job goes where the expected value of what its run tells for the next jobs of its program exceeds
what it is expected to lose itself. Only places that passed every hard constraint are looked at, and
only those whose upper predicted time stays within a factor of the best place's and keeps the job's
time limit as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from berth.policies.settings import Explore, PolicySettings
from berth.policies.values import Candidate, Explored, Ranked, Request
from berth.predictor.core.intervals import NORMAL_90
from berth.predictor.core.prediction import Basis
from berth.predictor.core.value_of_run import Place, value_of_run

_HOUR_S = 3600.0


class Allowance(NamedTuple):
    """What may still be spent, at one moment, on a job of one program."""

    core_hours: float
    """Of the budget of the period."""
    jobs: int
    """Of the program in the period, whoever's."""
    explored: int
    """Of these, sent somewhere to learn."""

    def open(self, explore: Explore) -> bool:
        """Whether one more job may be sent somewhere to learn."""
        return self.core_hours > 0 and self.explored + 1 <= explore.share * (self.jobs + 1)


def place_to_learn(
    request: Request,
    fits: Sequence[Ranked],
    candidates: Mapping[str, Candidate],
    settings: PolicySettings,
    allowance: Allowance,
    *,
    keeps_limit: Callable[[Ranked], bool],
) -> tuple[Ranked, Explored] | None:
    """The place whose run is worth most more than it costs, ``fits`` best first; None: the best.

    ``keeps_limit``: whether the upper predicted time there fits the time limit as it is.
    """
    explore, best = settings.explore, fits[0]
    if not allowance.open(explore) or best.guess or best.runtime_s is None or not best.score:
        return None
    rows = [row for row in fits if not row.guess and row.runtime_s is not None and row.score]
    places = [_place(row, candidates[row.candidate], settings) for row in rows]
    next_jobs = min(allowance.jobs, explore.next_jobs)
    here = value_of_run(places, 0)
    found: tuple[float, Ranked, Explored] | None = None
    for n, row in enumerate(rows):
        if n == 0 or not _within(row, best, explore.worst) or row.basis is Basis.PRIOR:
            continue
        spent = core_hours(request, row, candidates[row.candidate])
        if spent > allowance.core_hours:
            continue
        loss = max(0.0, places[n].mean - places[0].mean)
        value = next_jobs * (value_of_run(places, n) - here)
        net = value - loss
        if net <= 0 or (found is not None and net <= found[0]) or not keeps_limit(row):
            continue
        found = net, row, Explored(best.candidate, spent, value, loss)
    return None if found is None else found[1:]


def core_hours(request: Request, row: Ranked, candidate: Candidate) -> float:
    """What the job holds there by its upper predicted time; a GPU counts as its share of a node."""
    assert row.runtime_s is not None  # noqa: S101 - only rows with a time come here
    held = row.resources
    cores = float(held.cores)
    if candidate.is_gpu:
        cores = max(cores, held.gpus * candidate.cores_per_node / candidate.gpus_per_node)
    if request.needs.exclusive:
        cores = max(cores, float(held.nodes * candidate.cores_per_node))
    return cores * row.runtime_s.high / _HOUR_S * request.array_tasks


def _within(row: Ranked, best: Ranked, worst: float) -> bool:
    """Neither the time nor the score is worse than so many times the best's, by the upper time."""
    assert row.runtime_s is not None and best.runtime_s is not None  # noqa: S101, PT018
    assert row.score is not None and best.score is not None  # noqa: S101, PT018
    upper = row.runtime_s.high / row.runtime_s.mid
    return (
        row.runtime_s.high <= worst * best.runtime_s.mid and row.score * upper <= worst * best.score
    )


def _place(row: Ranked, candidate: Candidate, settings: PolicySettings) -> Place:
    """With the log of its score, of which the time is a part where waiting counts, too."""
    assert row.runtime_s is not None and row.score is not None  # noqa: S101, PT018
    time = row.runtime_s
    known = row.basis is Basis.MEASURED or time.low <= 0
    deviation = 0.0 if known else math.log(time.high / time.low) / 2 / NORMAL_90
    if settings.weights.wait > 0:
        deviation *= min(1.0, row.length_s / row.score)
    return Place(row.platform, candidate.is_gpu, math.log(row.score), deviation)
