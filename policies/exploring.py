"""Send a few jobs to candidates from whose runs the predictor learns most (``policy.explore``).

A job is sent to such a candidate if the expected gain for the workload's next jobs exceeds this
job's own expected loss. Only candidates that passed every constraint are considered, and of those
only the ones whose upper predicted time is within a factor of the best one's median and fits the
job's present time limit.
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
    """The exploration budget that is left at one moment for a job of one workload."""

    core_hours: float
    """Core-hours that are left of the period's budget."""
    jobs: int
    """Jobs of the workload in the period, of all users."""
    explored: int
    """Number of these jobs that were sent elsewhere to learn."""

    def open(self, explore: Explore) -> bool:
        """Return whether the budget allows one more job to be sent elsewhere to learn."""
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
    """Return the candidate with the largest gain minus loss for learning; None: use the best
    candidate.

    ``fits``: candidates, best first. ``keeps_limit``: returns whether the candidate's upper
    predicted
    time fits the job's present time limit.
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
    """Return the job's core-hours on the candidate, by the upper predicted time.

    A GPU counts as its share of the node's cores.
    """
    assert ranked.runtime_s is not None  # noqa: S101 - only candidates with a time come here
    held = ranked.resources
    cores = float(held.cores)
    if candidate.is_gpu:
        cores = max(cores, held.gpus * candidate.cores_per_node / candidate.gpus_per_node)
    if request.needs.exclusive:
        cores = max(cores, float(held.nodes * candidate.cores_per_node))
    return cores * ranked.runtime_s.high / _HOUR_S * request.array_tasks


def _within(ranked: Ranked, best: Ranked, worst: float) -> bool:
    """Return whether a candidate's upper time and score are at most ``worst`` times the best one's.

    The best candidate counts with its median time and score.
    """
    assert ranked.runtime_s is not None and best.runtime_s is not None  # noqa: S101, PT018
    assert ranked.score is not None and best.score is not None  # noqa: S101, PT018
    upper = ranked.runtime_s.high / ranked.runtime_s.mid
    return (
        ranked.runtime_s.high <= worst * best.runtime_s.mid
        and ranked.score * upper <= worst * best.score
    )


def _place(ranked: Ranked, candidate: Candidate, settings: PolicySettings) -> Place:
    """Return the candidate as a Place: the log of its score, with the log's standard deviation.

    Where waits count, the deviation is reduced to the run time's part of the score.
    """
    assert ranked.runtime_s is not None and ranked.score is not None  # noqa: S101, PT018
    time = ranked.runtime_s
    known = ranked.basis is Basis.MEASURED or time.low <= 0
    deviation = 0.0 if known else ranked.ratio_log_width / NORMAL_90
    if settings.weights.wait > 0:
        deviation *= min(1.0, ranked.length_s / ranked.score)
    return Place(ranked.platform, candidate.is_gpu, math.log(ranked.score), deviation)
