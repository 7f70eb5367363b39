"""The candidates ranked for what was asked, whoever asks and whatever the moment.

This is the larger part of a decision and the same for every submission of the same program in
the same shape, so it is remembered: the submit path then only looks at rights and states.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from berth.pilot.bounded import BoundedCache
from berth.policies import digest, sentences
from berth.policies.constraints import LASTING, Case, Exclusion
from berth.policies.objectives.costs import cost_of, expected_wait_s
from berth.policies.objectives.protocol import Objective, Offer
from berth.policies.settings import PolicySettings
from berth.policies.translate import translate
from berth.policies.values import Candidate, CandidateState, Ranked, Request, Resources
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.memory_need import where_known
from berth.predictor.core.prediction import Basis, Interval, Prediction

SHAPES_KEPT = 1_000
_LOOKUPS_KEPT = 8_192


class _Known(NamedTuple):
    """What a forecast says of a platform at so many units, nodes and a size, and what follows."""

    prediction: Prediction | None
    """The grid point."""
    runtime: Interval | None
    memory: Interval | None
    speedup: Interval | None
    shown_memory: Interval | None
    source: str


class Remembered:
    """What is the same for all policies of a site: look-ups in forecasts, and their digests.

    Bounded, the oldest forgotten first; ``forecasts``: about how many are asked for.
    """

    def __init__(self, forecasts: int = SHAPES_KEPT) -> None:
        self.lookups: BoundedCache[object, _Known] = BoundedCache(max(_LOOKUPS_KEPT, 8 * forecasts))
        self.digests: BoundedCache[int, tuple[Forecast, str]] = BoundedCache(forecasts)
        """By identity: each forecast is kept with its digest, so that its identity stays its
        own."""


class Ranking:
    """Ranks a site's candidates. What it remembers is bounded, the oldest forgotten first."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        settings: PolicySettings,
        objective: Objective,
        remembered: Remembered,
    ) -> None:
        self._candidates = tuple(candidates)
        self._settings = settings
        self._objective = objective
        self._score = objective.score
        self._wait_weight = settings.weights.wait
        self._shapes: BoundedCache[object, tuple[Ranked, ...]] = BoundedCache(SHAPES_KEPT)
        self._translations: BoundedCache[object, tuple[Resources | str, ...]] = BoundedCache(
            SHAPES_KEPT
        )
        self._lookups, self._forecasts = remembered.lookups, remembered.digests
        self._newest: Forecast | None = None
        self._newest_digest = ""

    def digest(self, forecast: Forecast) -> str:
        """Digest of what ``forecast`` says of the site's platforms; made once for each object."""
        if forecast is self._newest:
            return self._newest_digest
        found = self._forecasts.get(id(forecast))
        if found is None:
            made = digest.of_forecast(forecast, (c.platform for c in self._candidates))
            found = self._forecasts.put(id(forecast), (forecast, made))
        self._newest, self._newest_digest = found
        return found[1]

    def rows(self, request: Request, forecast: Forecast) -> tuple[Ranked, ...]:
        """Those that fit, best first (without any waiting time), then those ruled out."""
        digest_ = self.digest(forecast)
        key = (
            digest_,
            request.resources,
            request.size,
            request.queue,
            request.wants_placement,
            request.pinned,
            request.features,
            request.gres,
            request.time_limit_s,
            request.needs,
        )
        rows = self._shapes.get(key)
        if rows is None:
            held = self._translate(request)
            found = [
                self._row(request, candidate, resources, forecast, digest_)
                for candidate, resources in zip(self._candidates, held, strict=True)
            ]
            found.sort(key=order)
            rows = self._shapes.put(key, tuple(found))
        return rows

    def _translate(self, request: Request) -> tuple[Resources | str, ...]:
        key = (request.resources, request.pinned, request.needs)
        found = self._translations.get(key)
        if found is None:
            found = tuple(translate(request, candidate) for candidate in self._candidates)
            self._translations.put(key, found)
        return found

    def _row(
        self,
        request: Request,
        candidate: Candidate,
        resources: Resources | str,
        forecast: Forecast,
        digest_: str,
    ) -> Ranked:
        held = request.resources if isinstance(resources, str) else resources
        units = max(1, held.gpus if candidate.is_gpu else held.cores)
        prediction, runtime, memory, speedup, shown_memory, source = self._look_up(
            forecast, digest_, candidate.platform, (units, max(1, held.nodes)), request.size
        )
        case = Case(
            request, candidate, self._settings, forecast, resources, prediction, runtime, memory
        )
        excluded: Exclusion | None = None
        for constraint in LASTING:
            excluded = constraint(case)
            if excluded is not None:
                break
        cost = points = None
        if runtime is not None and prediction is not None:
            cost = cost_of(candidate, held, runtime.mid)
            if excluded is None:
                offer = Offer(
                    candidate, held, runtime, runtime.mid, cost, memory, prediction, request
                )
                points = self._score(offer)
                if points is None:
                    excluded = Exclusion(*self._objective.why_missing(offer))
        code, sentence = (None, None) if excluded is None else (excluded.code.value, excluded[1])
        return Ranked(
            candidate.name,
            candidate.platform,
            held,
            points,
            runtime,
            speedup,
            shown_memory,
            cost,
            None if prediction is None else prediction.basis,
            sentence,
            code,
            sentences.warning(prediction, runtime, self._settings),
            prediction is not None and _is_guess(prediction, self._settings),
            source,
        )

    def offer(
        self,
        request: Request,
        candidate: Candidate,
        held: Resources,
        forecast: Forecast,
        state: CandidateState | None,
        *,
        now_s: float = 0.0,
        turn: int = 0,
    ) -> Offer | None:
        """What the place offers at this moment; None: nothing is predicted there."""
        units = max(1, held.gpus if candidate.is_gpu else held.cores)
        known = self._look_up(
            forecast,
            self.digest(forecast),
            candidate.platform,
            (units, max(1, held.nodes)),
            request.size,
        )
        prediction, runtime, memory = known.prediction, known.runtime, known.memory
        if prediction is None or runtime is None:
            return None
        time_s, weight = runtime.mid, self._wait_weight
        cost = cost_of(candidate, held, time_s)
        if weight > 0:
            time_s += weight * expected_wait_s(held, time_s, state)
        return Offer(
            candidate, held, runtime, time_s, cost, memory, prediction, request, state, now_s, turn
        )

    def _look_up(
        self,
        forecast: Forecast,
        digest_: str,
        platform: str,
        shape: tuple[int, int],
        size: float | None,
    ) -> _Known:
        """What is forecast there with ``shape``, units and nodes; remembered by the digest."""
        units, nodes = shape
        key = (digest_, platform, shape, size)
        found = self._lookups.get(key)
        if found is not None:
            return found
        memory = forecast.memory_at(platform, size, nodes)
        runtime = forecast.runtime_at(platform, units, size, nodes)
        if size is None:
            prediction = forecast.prediction(platform, units, nodes)
            speedup = _speedup(prediction, runtime)
            source = forecast.source_of(platform)
        else:
            prediction, _, _, speedup, _, source = self._look_up(
                forecast, digest_, platform, shape, None
            )
        known = _Known(prediction, runtime, memory, speedup, where_known(memory), source)
        return self._lookups.put(key, known)


def order(row: Ranked) -> tuple[int, float, float, float, str]:
    """Best first, guesses last. Ties go to the shorter, then the cheaper, then by name."""
    if row.score is None:
        return (2, 0.0, 0.0, 0.0, row.candidate)
    time = math.inf if row.runtime_s is None else row.runtime_s.mid
    cost = math.inf if row.cost is None else row.cost
    return (int(row.guess), row.score, time, cost, row.candidate)


def _is_guess(prediction: Prediction, settings: PolicySettings) -> bool:
    prior = prediction.basis is Basis.PRIOR and not settings.allow_prior
    return prior or prediction.abstained is not None


def _speedup(point: Prediction | None, runtime: Interval | None) -> Interval | None:
    """Over the reference at the profiled size: the grid point's, moved to the very units."""
    if point is None or runtime is None or runtime.mid <= 0:
        return None
    factor = point.runtime_s.mid / runtime.mid
    return point.speedup if factor == 1.0 else point.speedup.scaled(factor)
