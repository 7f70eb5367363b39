"""Staying as written is one of the places: what is predicted of a job that is left alone.

A job may start on any node of its own queue on which it can run. Those nodes are the ones of the
site's candidates, so their predictions say how the job runs there, on those that are free first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from berth.pilot.units import format_seconds
from berth.policies.codes import OF_THE_PROGRAM, Code
from berth.policies.constraints import asks_for_gpus, gres_matches, has_features
from berth.policies.objectives.protocol import WHERE_SENT, JobEstimate, Scored
from berth.policies.ranking import Assessed
from berth.policies.values import Candidate, CandidateState, Ranked, Request

_ROUNDING = 1e-9


class Staying(NamedTuple):
    """What is predicted of the job where its user submitted it."""

    score: float
    """The objective's score, in its unit; smaller is better."""
    runtime_s: float
    """The run time that the score is of; of an array, that of its longest task."""
    array_s: float | None
    """Seconds until the last task of an array ends; None: a single job."""
    places: tuple[str, ...] = ()
    """Candidates whose nodes are in the job's own queue."""
    best_score: float = 0.0
    """The score on the most favourable of its nodes that are free first."""
    fastest_s: float = 0.0
    """The run time on the fastest of these."""
    cost: float | None = None
    """The cost that the score is of, in the site's currency; None: the site file has no price."""
    best_cost: float | None = None
    """The cost that ``best_score`` is of."""

    def over(self, ranked: Ranked) -> float:
        """Return how many times better the job does at a place.

        A place among the nodes of its own queue is compared with the least favourable of these, a
        place elsewhere with the most favourable.
        """
        return self.beside(ranked).score / ranked.score if ranked.score else 0.0

    def beside(self, ranked: Ranked) -> Scored:
        """Return the score of staying that a place is compared with, as ``over`` says."""
        if ranked.candidate in self.places:
            return Scored(self.score, self.cost, WHERE_SENT)
        return Scored(self.best_score, self.best_cost, WHERE_SENT)

    def no_worse(self, ranked: Ranked, alike_within: float) -> Ranked:
        """Return the candidate, ruled out where the job does worse there than on the most
        favourable of its own nodes; among these, those within a factor are alike."""
        factor = alike_within if ranked.candidate in self.places else 1 + _ROUNDING
        if ranked.score is None or ranked.score <= self.best_score * factor:
            return ranked
        return ranked._replace(
            score=None, code=Code.NO_BETTER.value,
            excluded=f"the job does better where it was submitted: {self._time}",
        )  # fmt: skip

    def sentence(self, best: Ranked | None) -> str:
        """Return why the job stays; ``best``: the place that is as good."""
        other = "no place is better" if best is None else f"{best.candidate} is no better"
        return f"Left where you sent it: {self._time} is predicted there, and {other}."

    @property
    def _time(self) -> str:
        if self.array_s is not None:
            return f"{format_seconds(self.array_s)} for all its tasks"
        return format_seconds(self.runtime_s)


def as_it_may_start(
    request: Request,
    candidates: Mapping[str, Candidate],
    states: Mapping[str, CandidateState],
) -> Request:
    """Return the request with only those places of its own queue whose nodes take the job as
    written."""
    own = request.own
    if own is None or not own.places:
        return request
    places = tuple(
        name
        for name in own.places
        if _takes_as_written(request, candidates[name], states.get(name))
    )
    return request if places == own.places else replace(request, own=replace(own, places=places))


def runs_nowhere(request: Request, assessed: Sequence[Assessed]) -> bool:
    """Return whether the job, or its program, can run on no node of its own queue."""
    own = request.own
    if own is None or own.places is None or own.has_others:
        return False
    if own.places and not asks_for_gpus(request) and not _own_kinds(request, assessed):
        return False  # on nodes with GPUs, of which nothing is known without them
    return all(each.ranked.code in OF_THE_PROGRAM for each in _own_kinds(request, assessed))


def staying_of(
    request: Request,
    assessed: Sequence[Assessed],
    states: Mapping[str, CandidateState],
    at_present: Callable[[JobEstimate, Request, CandidateState | None], JobEstimate],
    score_of: Callable[[JobEstimate], float | None],
) -> Staying | None:
    """Return what is predicted of the job as written; None: nothing, or its queue is not known.

    Predictions that are too weak to act on count too: they are what is known of staying.
    ``assessed``: all candidates. ``at_present``: adds the wait in a state to an estimate.
    """
    own = request.own
    kinds: list[tuple[float, Staying]] = []
    for each in _own_kinds(request, assessed):
        ranked, estimate = each.ranked, each.estimate
        if own is None or estimate is None or ranked.code in OF_THE_PROGRAM:
            continue
        state = states.get(each.candidate.name)
        if state is not None:
            state = replace(state, pending_jobs=own.pending_jobs)
        estimate = at_present(estimate, request, state)
        score = score_of(estimate)
        if score is not None:
            array_s = None if estimate.makespan is None else estimate.makespan.seconds
            wait_s = 0.0 if array_s is not None else estimate.time_s - estimate.runtime_s.mid
            staying = Staying(score, estimate.runtime_s.mid, array_s, cost=estimate.cost)
            kinds.append((wait_s, staying))
    if own is None or not kinds:
        return None
    first_s = min(wait_s for wait_s, _ in kinds)
    free = [kind for wait_s, kind in kinds if wait_s <= first_s]
    best = min(free, key=lambda kind: kind.score)
    return max(free, key=lambda kind: (kind.score, kind.runtime_s))._replace(
        places=own.places or (),
        best_score=best.score,
        best_cost=best.cost,
        fastest_s=min(kind.runtime_s for kind in free),
    )


def _own_kinds(request: Request, assessed: Sequence[Assessed]) -> list[Assessed]:
    """Return the candidates that say how the job runs if it is left alone; on the nodes of GPU
    candidates a job without GPUs runs in a way of which they say nothing."""
    places = (request.own and request.own.places) or ()
    wants = asks_for_gpus(request)
    return [e for e in assessed if e.candidate.name in places and e.candidate.is_gpu == wants]


def _takes_as_written(request: Request, candidate: Candidate, state: CandidateState | None) -> bool:
    asked, gres = request.resources, request.gres
    if asks_for_gpus(request) and not candidate.is_gpu:
        return False
    if asks_for_gpus(request) and gres is not None and not gres_matches(gres, candidate.gres):
        return False
    nodes_have = (*candidate.features, *(candidate.constraint or "").split("&"))
    if request.features is not None and not has_features(
        replace(candidate, features=nodes_have), request.features
    ):
        return False
    sizes: Sequence[tuple[int, int | None, int]] = state.node_sizes or () if state else ()
    if not sizes:  # what the scheduler says of its nodes comes first
        sizes = ((candidate.cores_per_node, candidate.memory_bytes_per_node, 1),)
    memory = asked.memory_bytes_per_node or 0
    cores = max(asked.cpus_per_task, request.needs.min_cores_per_node)
    return any(cpus >= cores and (size is None or size >= memory) for cpus, size, _ in sizes)
