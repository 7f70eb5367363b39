"""Rank the candidates for a request, independent of the user and the present state.

This is the larger part of a decision. The ranking is the same for every submission of one workload
with the same resources, so it is cached: the submit path then only checks rights and states.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import NamedTuple

from berth.pilot.bounded import BoundedCache
from berth.policies import sentences
from berth.policies.arrays import work_of
from berth.policies.codes import Code
from berth.policies.constraints import Prospect, excluded_for_good, not_known_to_run
from berth.policies.objectives.protocol import JobEstimate, Objective
from berth.policies.objectives.time_and_cost import price_per_hour
from berth.policies.resources import translate, with_memory
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, Ranked, Request, Resources
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis, Interval, MemoryUse, Prediction

SHAPES_KEPT = 1_000
_WHO_ASKS = frozenset(
    ("user", "account", "qos", "allowed_queues", "workload", "opted_out", "component",
     "scheduler_since_s", "own")
)  # fmt: skip
"""Fields of a Request that its ranking does not depend on; of ``own`` it depends on the limits."""
_what_is_asked = attrgetter(
    *(field.name for field in fields(Request) if field.name not in _WHO_ASKS)
)


class Assessed(NamedTuple):
    """A candidate assessed for one request, before its present state is checked."""

    candidate: Candidate
    ranked: Ranked
    """The candidate with its score (without waiting time) or with the reason that excludes it."""
    estimate: JobEstimate | None
    """The estimate from which the score is computed; None: no prediction for the platform."""


Assessments = BoundedCache[object, tuple[Assessed, ...]]
"""Candidates assessed for requests, without scores: the same for all objectives and weights."""


class Ranking:
    """Ranks a site's candidates for requests and caches the ``kept`` newest rankings."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        settings: PolicySettings,
        objective: Objective,
        kept: int = SHAPES_KEPT,
        unscored: Assessments | None = None,
    ) -> None:
        """``unscored``: cache shared with rankings by other objectives and weights."""
        self._candidates = tuple(candidates)
        self._settings = settings
        self._objective = objective
        self._shapes: BoundedCache[object, tuple[Assessed, ...]] = BoundedCache(kept)
        self._unscored = unscored

    def __len__(self) -> int:
        return len(self._shapes)

    def of(self, request: Request, forecast: Forecast) -> tuple[Assessed, ...]:
        """Return all candidates for the request: those that fit, best first, then those
        excluded.
        """
        limit_s = None if request.own is None else request.own.limit_s
        key = forecast.content_digest, _what_is_asked(request), request.default_memory, limit_s
        known = self._shapes.get(key)
        if known is None:
            unscored = None if self._unscored is None else self._unscored.get(key)
            if unscored is None:
                unscored = tuple(self._assessed(request, c, forecast) for c in self._candidates)
                if forecast.kind == "history" and request.time_limit_s is not None:
                    unscored = _no_slower_in_time(unscored)
                if self._unscored is not None:
                    self._unscored.put(key, unscored)
            scored = sorted(map(self._scored, unscored), key=lambda each: order(each.ranked))
            known = self._shapes.put(key, tuple(scored))
        return known

    def _scored(self, assessed: Assessed) -> Assessed:
        ranked, estimate = assessed.ranked, assessed.estimate
        if estimate is None or ranked.excluded is not None:
            return assessed
        score = self._objective.score(estimate)
        if score is not None:
            return assessed._replace(ranked=ranked._replace(score=score))
        code, sentence = self._objective.why_missing(estimate)
        return assessed._replace(ranked=ranked._replace(excluded=sentence, code=code.value))

    def _assessed(self, request: Request, candidate: Candidate, forecast: Forecast) -> Assessed:
        settings = self._settings
        translated = translate(request, candidate)
        held = request.resources if isinstance(translated, str) else translated
        point, runtime_s, memory, speedup = _predicted(forecast, request.size, candidate, held)
        price = price_per_hour(candidate, held)
        if not isinstance(translated, str):
            on_host = None if memory is None else memory.host_bytes
            translated = with_memory(request, candidate, translated, on_host)
            held = request.resources if isinstance(translated, str) else translated
        case = Prospect(
            request, candidate, settings, forecast, translated, point, runtime_s, memory
        )
        excluded = excluded_for_good(case)
        cost = estimate = None
        if runtime_s is not None and point is not None:
            cost = None if price is None else price * runtime_s.mid / 3600.0
            array = request.array
            work = 1.0 if array is None else work_of(array, forecast, held.nodes or 1)
            estimate = JobEstimate(
                candidate, held, runtime_s, runtime_s.mid, cost, memory, point, request, work=work
            )
        unsure = not_known_to_run(candidate, forecast)
        half_width, is_guess = math.inf, False
        if point is not None:
            is_prior = point.basis is Basis.PRIOR and not settings.allow_prior
            is_guess = is_prior or point.abstained is not None
            if runtime_s is not None:
                half_width = point.ratio_log_width_of(runtime_s)
        warning = sentences.warning(point, settings.too_wide(half_width))
        ranked = Ranked(
            candidate=candidate.name,
            platform=candidate.platform,
            resources=held,
            score=None,
            runtime_s=runtime_s,
            speedup=speedup,
            memory=memory,
            cost=cost,
            basis=None if point is None else point.basis,
            excluded=None if excluded is None else excluded.sentence,
            code=None if excluded is None else excluded.code.value,
            warning="; ".join(filter(None, (unsure, warning))) or None,
            guess=unsure is not None or is_guess,
            source=forecast.source_of(candidate.platform),
            ratio_log_width=half_width,
            usual_ratio=None if point is None else point.usual_ratio,
        )
        return Assessed(candidate, ranked, estimate)


def _no_slower_in_time(assessed: tuple[Assessed, ...]) -> tuple[Assessed, ...]:
    """Return the candidates; none is ruled out by the job's time limit where past jobs expect it to
    take no longer than on another within the limit: its time is only less well known there."""
    longest_s = max(
        (each.estimate.runtime_s.mid for each in assessed
         if each.estimate is not None and each.ranked.excluded is None),
        default=0.0,
    )  # fmt: skip
    return tuple(
        each._replace(ranked=each.ranked._replace(excluded=None, code=None))
        if each.ranked.code == Code.TIME_OVER_LIMIT
        and each.estimate is not None
        and each.estimate.runtime_s.mid <= longest_s
        else each
        for each in assessed
    )


def order(ranked: Ranked) -> tuple[int, float, float, float, str]:
    """Return the sort key of a ranked candidate: best score first, guesses after, excluded ones
    last.

    Ties are broken by time, cost, then name.
    """
    if ranked.score is None:
        return (2, 0.0, 0.0, 0.0, ranked.candidate)
    time = math.inf if ranked.runtime_s is None else ranked.runtime_s.mid
    cost = math.inf if ranked.cost is None else ranked.cost
    return (int(ranked.guess), ranked.score, time, cost, ranked.candidate)


class _Predicted(NamedTuple):
    """A forecast's prediction for one candidate, with the job's resources and problem size."""

    point: Prediction | None
    """The grid point that the other fields come from; None: the platform has no forecast."""
    runtime_s: Interval | None = None
    memory: MemoryUse | None = None
    speedup: Interval | None = None
    """Speedup over the reference platform, at the profiled problem size."""


def _predicted(
    forecast: Forecast, size: float | None, candidate: Candidate, held: Resources
) -> _Predicted:
    units, nodes = max(1, held.gpus if candidate.is_gpu else held.cores), max(1, held.nodes)
    platform = candidate.platform
    point = forecast.prediction(platform, units, nodes)
    runtime_s = forecast.runtime_at(platform, units, nodes=nodes)
    memory = forecast.memory_at(platform, units, size, nodes)
    if point is None or runtime_s is None or memory is None:
        return _Predicted(point)
    speedup = None
    if runtime_s.mid > 0:
        speedup = point.speedup.scaled(point.runtime_s.mid / runtime_s.mid)
    if size is not None:
        runtime_s = forecast.growth(size, nodes).runtime(runtime_s, point.launch_s)
    return _Predicted(point, runtime_s, memory, speedup)
