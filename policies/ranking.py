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
from berth.policies.arrays import work_of
from berth.policies.codes import Code
from berth.policies.constraints import (
    OF_KIND,
    OF_NUMBERS,
    OF_PREDICTION,
    Case,
    Exclusion,
    PresentConstraint,
    admitted_s,
    first_of,
    not_known_to_run,
    time_fits,
    upper_s,
)
from berth.policies.memory import memory_form, with_memory
from berth.policies.objectives.costs import price_per_hour
from berth.policies.objectives.protocol import Objective, Offer
from berth.policies.settings import PolicySettings
from berth.policies.translate import translate
from berth.policies.values import (
    Candidate,
    CandidateState,
    MemoryForm,
    Ranked,
    Request,
    Resources,
)
from berth.predictor.core.forecast import Forecast, Growth, memory_with
from berth.predictor.core.prediction import Basis, Interval, MemoryUse, Prediction

SHAPES_KEPT = 1_000
_ASKED_KEPT = 250
"""What is asked but for problem size, memory and time limit, which is less various."""
_LOOKUPS_KEPT = 8_192


class Checked(NamedTuple):
    """What may still rule a place out by a reading of it."""

    state: CandidateState | None
    checks: tuple[PresentConstraint, ...]
    open_to_all: bool
    """Only an old reading, or queues that the submitter may not use, can rule it out."""


class Shape(NamedTuple):
    """The candidates ranked for one shape of job."""

    rows: tuple[Ranked, ...]
    """Those that fit, best first (without any waiting time), then those ruled out."""
    offers: tuple[Offer | None, ...]
    """What each row's score is made of; None: nothing is predicted there."""
    checked: dict[str, Checked]
    """By candidate, of the newest reading that was looked at: filled by who looks."""


class _Known(NamedTuple):
    """What a forecast says of a platform at so many units and nodes, at the profiled size."""

    prediction: Prediction | None
    """The grid point."""
    runtime: Interval | None
    memory: MemoryUse | None
    speedup: Interval | None
    memory_ratio: Interval | None
    """Of these nodes over the main run's."""
    source: str


class _Place(NamedTuple):
    """A candidate for what was asked, whatever the problem size, the memory and the time limit."""

    candidate: Candidate
    price_per_hour: float | None
    guess: bool
    unsure: str | None
    """Why it may not run there."""
    of_another_kind: Exclusion | None
    unpredicted: Exclusion | None

    @property
    def ruled_out(self) -> Exclusion | None:
        """Whatever memory and problem size are asked for."""
        return self.of_another_kind or self.unpredicted


class _Alike(NamedTuple):
    """Places for which any problem size and memory gives the same numbers: one platform's, say."""

    resources: Resources | str
    """Translated, without memory."""
    known: _Known
    places: tuple[_Place, ...]


class Remembered:
    """What is the same for all policies of a site: look-ups in forecasts, their digests, places.

    Bounded, the oldest forgotten first; ``forecasts``: about how many are asked for; ``asked``: in
    how many ways, but for problem size, memory and time limit.
    """

    def __init__(self, forecasts: int = SHAPES_KEPT, asked: int = _ASKED_KEPT) -> None:
        self.lookups: BoundedCache[object, _Known] = BoundedCache(max(_LOOKUPS_KEPT, 8 * forecasts))
        self.digests: BoundedCache[int, tuple[Forecast, str]] = BoundedCache(forecasts)
        """By identity: each forecast is kept with its digest, so that its identity stays its
        own."""
        self.places: BoundedCache[object, tuple[_Alike, ...]] = BoundedCache(asked)


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
        self._shapes: BoundedCache[object, Shape] = BoundedCache(SHAPES_KEPT)
        self._translations: BoundedCache[object, tuple[Resources | str, ...]] = BoundedCache(
            SHAPES_KEPT
        )
        self._lookups, self._forecasts = remembered.lookups, remembered.digests
        self._places = remembered.places
        self._rules = settings.strict, settings.allow_prior, settings.untyped_gpus
        """All of the policy that a _Place depends on."""
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

    def shape(self, request: Request, forecast: Forecast) -> Shape:
        """All candidates for what was asked."""
        digest_ = self.digest(forecast)
        key = (
            digest_,
            request.resources,
            request.queue,
            request.wants_placement,
            request.pinned,
            request.features,
            request.gres,
            request.time_limit_s,
            request.needs,
            request.size,
            request.default_memory,
            (request.keeps_shape, request.follows_shape, request.packs_steps),
            # How many tasks run at a time depends on who asks: an array's places are its user's.
            None if request.array is None
            else (request.array, request.user, request.account, request.qos),
        )  # fmt: skip
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes.put(key, self._ranked(request, forecast, digest_))
        return shape

    def _ranked(self, request: Request, forecast: Forecast, digest_: str) -> Shape:
        works: dict[int, float] = {}
        growths: dict[int, Growth] = {}
        found: list[tuple[Ranked, Offer | None]] = []
        for alike in self._places_for(request, forecast, digest_):
            growth = None
            if request.size is not None:
                nodes = _held(request, alike.resources).nodes or 1
                growth = growths.get(nodes)
                if growth is None:
                    growth = growths[nodes] = forecast.growth(request.size, nodes)
            work = 1.0
            if request.array is not None:
                nodes = _held(request, alike.resources).nodes or 1
                if nodes not in works:
                    works[nodes] = work_of(request.array, forecast, nodes)
                work = works[nodes]
            found += self._rows(request, alike, forecast, growth, work)
        found.sort(key=_in_order)
        rows, offers = zip(*found, strict=True) if found else ((), ())
        return Shape(rows, offers, {})

    def _places_for(self, request: Request, forecast: Forecast, digest_: str) -> tuple[_Alike, ...]:
        key = (
            self._rules,
            digest_,
            request.resources.with_memory(None),
            request.queue,
            request.wants_placement,
            request.pinned,
            request.features,
            request.gres,
            request.needs,
            request.default_memory,
            (request.keeps_shape, request.follows_shape, request.packs_steps),
        )
        found = self._places.get(key)
        if found is None:
            alike: dict[object, tuple[Resources | str, _Known, list[_Place]]] = {}
            translated = zip(self._candidates, self._translate(request), strict=True)
            for candidate, resources in translated:
                known = self._known(request, candidate, resources, forecast, digest_)
                place = self._place(request, candidate, resources, forecast, known)
                kind = _kind(request, place, resources, known)
                alike.setdefault(kind, (resources, known, []))[2].append(place)
            made = (_Alike(held, known, tuple(places)) for held, known, places in alike.values())
            found = self._places.put(key, tuple(made))
        return found

    def _translate(self, request: Request) -> tuple[Resources | str, ...]:
        key = (
            request.resources.with_memory(None),
            request.pinned,
            request.needs,
            request.default_memory,
            (request.keeps_shape, request.follows_shape, request.packs_steps),
        )
        found = self._translations.get(key)
        if found is None:
            found = tuple(translate(request, candidate) for candidate in self._candidates)
            self._translations.put(key, found)
        return found

    def _known(
        self,
        request: Request,
        candidate: Candidate,
        resources: Resources | str,
        forecast: Forecast,
        digest_: str,
    ) -> _Known:
        held = _held(request, resources)
        units = max(1, held.gpus if candidate.is_gpu else held.cores)
        return self._look_up(forecast, digest_, candidate.platform, units, max(1, held.nodes))

    def _place(
        self,
        request: Request,
        candidate: Candidate,
        resources: Resources | str,
        forecast: Forecast,
        known: _Known,
    ) -> _Place:
        settings, prediction = self._settings, known.prediction
        case = Case(
            request, candidate, settings, forecast, resources,
            prediction, known.runtime, known.memory,
        )  # fmt: skip
        of_another_kind = first_of(OF_KIND, case)
        unsure = not_known_to_run(candidate, forecast)
        return _Place(
            candidate,
            price_per_hour(candidate, _held(request, resources)),
            (prediction is not None and _is_guess(prediction, settings)) or unsure is not None,
            unsure,
            of_another_kind,
            first_of(OF_PREDICTION, case) if of_another_kind is None else None,
        )

    def _rows(
        self,
        request: Request,
        alike: _Alike,
        forecast: Forecast,
        growth: Growth | None,
        work: float,
    ) -> list[tuple[Ranked, Offer | None]]:
        """``growth``: to the problem size that is asked for (None: as profiled); ``work``: of all
        tasks of an array, in times of the longest."""
        settings, places = self._settings, alike.places
        prediction, runtime, memory, speedup, memory_ratio, source = alike.known
        if memory is not None:
            memory = memory_with(memory, growth, memory_ratio)
        if runtime is not None and growth is not None:
            runtime = growth.runtime(runtime)
        lacks, resources = None, alike.resources
        if not isinstance(resources, str):
            on_host = None if memory is None else memory.host_bytes
            resources = with_memory(request, places[0].candidate, resources, on_host)
            if isinstance(resources, str):
                lacks = Exclusion(Code.TOO_FEW_RESOURCES, resources)
        held = _held(request, resources)
        case = Case(
            request, places[0].candidate, settings, forecast, held, prediction, runtime, memory
        )
        if lacks is None and places[0].ruled_out is None:
            unfit = first_of(OF_NUMBERS, case)
        else:
            unfit = None
        upper = upper_s(runtime, forecast, settings)
        basis = None if prediction is None else prediction.basis
        warning = sentences.warning(prediction, runtime, settings)
        found: list[tuple[Ranked, Offer | None]] = []
        for candidate, price, guess, unsure, of_another_kind, unpredicted in places:
            cost = points = offer = None
            if runtime is not None and prediction is not None:
                cost = None if price is None else price * runtime.mid / 3600.0
                offer = Offer(
                    candidate, held, runtime, runtime.mid, cost, memory, prediction, request,
                    work=work,
                )  # fmt: skip
            excluded = of_another_kind or lacks or unpredicted or unfit
            if excluded is None and upper > admitted_s(request, candidate, settings):
                case.candidate = candidate
                excluded = time_fits(case)
            if excluded is None and offer is not None:
                points = self._score(offer)
                if points is None:
                    excluded = Exclusion(*self._objective.why_missing(offer))
            code = sentence = None
            if excluded is not None:
                code, sentence = excluded.code.value, excluded.sentence
            row = Ranked(
                candidate.name, candidate.platform, held, points, runtime, speedup, memory,
                cost, basis, sentence, code, _both(warning, unsure), guess, source,
            )  # fmt: skip
            found.append((row, offer))
        return found

    def _look_up(
        self, forecast: Forecast, digest_: str, platform: str, units: int, nodes: int
    ) -> _Known:
        """What is forecast there with so many units and nodes; remembered by the digest."""
        key = (digest_, platform, units, nodes)
        found = self._lookups.get(key)
        if found is not None:
            return found
        prediction = forecast.prediction(platform, units, nodes)
        runtime = forecast.runtime_at(platform, units, nodes=nodes)
        known = _Known(
            prediction,
            runtime,
            forecast.profiled_memory(platform, units, nodes),
            _speedup(prediction, runtime),
            forecast.memory_ratio(platform, nodes),
            forecast.source_of(platform),
        )
        return self._lookups.put(key, known)


def _kind(request: Request, place: _Place, resources: Resources | str, known: _Known) -> object:
    """Places of one kind get the same numbers, whatever memory and problem size are asked for."""
    candidate = place.candidate
    return (
        resources,
        id(known),
        candidate.is_gpu,
        candidate.gpu_memory_bytes,
        candidate.memory_bytes_per_node,
        candidate.translation.keep_memory,
        candidate.cores_per_node if memory_form(request) is MemoryForm.CORE else None,
        place.ruled_out is None,
    )


def _held(request: Request, resources: Resources | str) -> Resources:
    """What is shown of a place: as asked, where nothing there is like it."""
    return request.resources if isinstance(resources, str) else resources


def _in_order(found: tuple[Ranked, Offer | None]) -> tuple[int, float, float, float, str]:
    return order(found[0])


def order(row: Ranked) -> tuple[int, float, float, float, str]:
    """Best first, guesses last. Ties go to the shorter, then the cheaper, then by name."""
    if row.score is None:
        return (2, 0.0, 0.0, 0.0, row.candidate)
    time = math.inf if row.runtime_s is None else row.runtime_s.mid
    cost = math.inf if row.cost is None else row.cost
    return (int(row.guess), row.score, time, cost, row.candidate)


def _both(warning: str | None, unsure: str | None) -> str | None:
    return f"{unsure}; {warning}" if warning and unsure else unsure or warning


def _is_guess(prediction: Prediction, settings: PolicySettings) -> bool:
    prior = prediction.basis is Basis.PRIOR and not settings.allow_prior
    return prior or prediction.abstained is not None


def _speedup(point: Prediction | None, runtime: Interval | None) -> Interval | None:
    """Over the reference at the profiled size: the grid point's, moved to the very units."""
    if point is None or runtime is None or runtime.mid <= 0:
        return None
    factor = point.runtime_s.mid / runtime.mid
    return point.speedup if factor == 1.0 else point.speedup.scaled(factor)
