"""Sends a few jobs where the most is learnt, at a stated expense (``policy.explore``).

A job goes where the expected value of what its run tells for the next jobs of its workload exceeds
what it is expected to lose itself. Only candidates that passed every hard constraint are looked at,
and only those whose upper predicted time stays within a factor of the best one's and keeps the
job's time limit as it is.
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
    """The budget that is left, at one moment, for a job of one workload."""

    core_hours: float
    """Core-hours left of the budget of the period."""
    jobs: int
    """Jobs of the workload in the period, whoever's."""
    explored: int
    """Those of these jobs that were sent somewhere to learn."""

    def open(self, explore: Explore) -> bool:
        """Return whether one more job may be sent somewhere to learn."""
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
    """Return the candidate whose run is worth most more than it costs; None: the best one.

    ``fits``: best first. ``keeps_limit``: whether the upper predicted time there fits the time
    limit as it is.
    """
    explore, best = settings.explore, fits[0]
    if not allowance.open(explore) or best.guess or best.runtime_s is None or not best.score:
        return None
    scored = [
        ranked
        for ranked in fits
        if not ranked.guess and ranked.runtime_s is not None and ranked.score
    ]
    places = [_place(ranked, candidates[ranked.candidate], settings) for ranked in scored]
    next_jobs = min(allowance.jobs, explore.next_jobs)
    value_of_best = value_of_run(places, 0)
    most: tuple[float, Ranked, Explored] | None = None
    for n, ranked in enumerate(scored):
        if n == 0 or not _within(ranked, best, explore.worst) or ranked.basis is Basis.PRIOR:
            continue
        spent = core_hours(request, ranked, candidates[ranked.candidate])
        if spent > allowance.core_hours:
            continue
        loss = max(0.0, places[n].mean - places[0].mean)
        value = next_jobs * (value_of_run(places, n) - value_of_best)
        net = value - loss
        if net <= 0 or (most is not None and net <= most[0]) or not keeps_limit(ranked):
            continue
        most = net, ranked, Explored(best.candidate, spent, value, loss)
    return None if most is None else most[1:]


def core_hours(request: Request, ranked: Ranked, candidate: Candidate) -> float:
    """Return what the job holds there by its upper predicted time; a GPU counts as its share of
    a node."""
    assert ranked.runtime_s is not None  # noqa: S101 - only candidates with a time come here
    held = ranked.resources
    cores = float(held.cores)
    if candidate.is_gpu:
        cores = max(cores, held.gpus * candidate.cores_per_node / candidate.gpus_per_node)
    if request.needs.exclusive:
        cores = max(cores, float(held.nodes * candidate.cores_per_node))
    return cores * ranked.runtime_s.high / _HOUR_S * request.array_tasks


def _within(ranked: Ranked, best: Ranked, worst: float) -> bool:
    """Return whether neither time nor score is worse than ``worst`` times the best's, by the
    upper time."""
    assert ranked.runtime_s is not None and best.runtime_s is not None  # noqa: S101, PT018
    assert ranked.score is not None and best.score is not None  # noqa: S101, PT018
    upper = ranked.runtime_s.high / ranked.runtime_s.mid
    return (
        ranked.runtime_s.high <= worst * best.runtime_s.mid
        and ranked.score * upper <= worst * best.score
    )


def _place(ranked: Ranked, candidate: Candidate, settings: PolicySettings) -> Place:
    """Return the candidate with the log of its score, of which the time is a part where waits
    count."""
    assert ranked.runtime_s is not None and ranked.score is not None  # noqa: S101, PT018
    time = ranked.runtime_s
    known = ranked.basis is Basis.MEASURED or time.low <= 0
    deviation = 0.0 if known else math.log(time.high / time.low) / 2 / NORMAL_90
    if settings.weights.wait > 0:
        deviation *= min(1.0, ranked.length_s / ranked.score)
    return Place(ranked.platform, candidate.is_gpu, math.log(ranked.score), deviation)
