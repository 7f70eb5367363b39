"""The place that a Decider chooses, without ranking the others: for replays of many jobs.

Places come in the order of their scores without any wait. Where a wait only ever makes a score
larger, those behind can be left alone as soon as the next one's is above the best one's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from berth.pilot.bounded import BoundedCache
from berth.policies.decide import Decider, listed_beside
from berth.policies.edits import edit_of
from berth.policies.objectives.costs import expected_wait_s
from berth.policies.objectives.protocol import Offer
from berth.policies.present import standing
from berth.policies.ranking import SHAPES_KEPT, order
from berth.policies.settings import ListBy
from berth.policies.values import (
    UNBOUNDED,
    Candidate,
    CandidateState,
    Decision,
    Edit,
    Ranked,
    Request,
)
from berth.predictor.core.forecast import Forecast


class Choice(NamedTuple):
    """What a replay needs of a Decision."""

    best: Ranked
    edit: Edit
    listed: tuple[Ranked, ...]
    """Of each further queue that the job is submitted to, the best place there."""


class _Place:
    """A place that fits a shape of job, as far as it is the same at every moment."""

    __slots__ = ("candidate", "edit", "offer", "open_to_all", "rest", "row", "runtime_s")

    def __init__(self, row: Ranked, candidate: Candidate, offer: Offer) -> None:
        self.row, self.candidate, self.offer = row, candidate, offer
        self.runtime_s = offer.runtime_s.mid
        self.rest = order(row)[2:]
        self.edit: Edit | None = None
        self.open_to_all = candidate.slice_of is None and (
            candidate.allowed_users is candidate.allowed_accounts is candidate.allowed_qos is None
        )


_Found = tuple[tuple[bool, float, tuple[float, float, str]], _Place]
"""By which places are sorted, and one of them."""


class Chooser:
    """Chooses as ``decider.decide`` does, job by job. Not safe to share between threads."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        settings, objective = decider.settings, decider.objective
        self._settings, self._objective = settings, objective
        self._weight = settings.weights.wait
        self._most = 1.0
        if settings.lists:
            by_start = settings.list_by is ListBy.START
            self._most = math.inf if by_start else settings.alike_within
        self._stops = objective.grows and not objective.live
        self._whole = any(one.slice_of is not None for one in decider.candidates)
        self._by_name = {one.name: one for one in decider.candidates}
        self._shapes: BoundedCache[int, tuple[object, list[_Place]]] = BoundedCache(SHAPES_KEPT)
        """By the identity of the ranked shape."""
        self._asked: BoundedCache[tuple[int, int], tuple[object, object, list[_Place]]] = (
            BoundedCache(SHAPES_KEPT)
        )
        """By the identities of request and forecast, which are held so that they stay theirs."""
        self._turn = -1
        self.decided: Decision | None = None
        """The last whole Decision: where one was made, as for places that are slices."""

    def choose(
        self,
        request: Request,
        states: Mapping[str, CandidateState],
        forecast: Forecast | None,
        now_s: float,
    ) -> Choice | None:
        """None: the job stays as it is."""
        self._turn += self._objective.turns
        if self._whole:
            return self._decided(request, states, forecast, now_s)
        if (
            forecast is None
            or request.opted_out
            or request.pinned
            or request.component is not None
            or request.array is not None
        ):
            return self._decided(request, states, forecast, now_s)
        found: list[_Found] = []
        best: _Found | None = None
        bound = math.inf
        for place in self._places(request, forecast):
            row = place.row
            if self._stops and best is not None and (
                row.score > bound or row.guess > best[0][0]  # type: ignore[operator]
            ):  # fmt: skip
                break
            state = states.get(row.candidate)
            if not self._fits(request, place, state, forecast, now_s):
                continue
            score = self._score(request, place, state, now_s)
            one = ((row.guess, score, place.rest), place)
            found.append(one)
            if best is None or one[0] < best[0]:
                best, bound = one, score * self._most
        if best is None:
            return None
        edit = self._edit(request, best[1], forecast)
        if self._most <= 1 or edit.queue is None:
            return Choice(best[1].row, edit, ())
        return Choice(best[1].row, edit, self._listed(request, states, forecast, found, edit))

    def _decided(
        self,
        request: Request,
        states: Mapping[str, CandidateState],
        forecast: Forecast | None,
        now_s: float,
    ) -> Choice | None:
        made = self.decided = self._decider.decide(request, states, forecast, now_s)
        if made.chosen is None or made.edit is None:
            return None
        queues = () if made.edit.queue is None else tuple(made.edit.queue.split(",")[1:])
        fits = [row for row in made.ranked if row.score is not None]
        return Choice(made.ranked[0], made.edit, self._first_of(queues, fits))

    def _places(self, request: Request, forecast: Forecast) -> list[_Place]:
        key = id(request), id(forecast)
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked.put(key, (request, forecast, self._ranked(request, forecast)))
        return asked[2]

    def _ranked(self, request: Request, forecast: Forecast) -> list[_Place]:
        shape = self._decider.ranking.shape(request, forecast)
        known = self._shapes.get(id(shape))
        if known is None or known[0] is not shape:
            made = [
                _Place(row, self._by_name[row.candidate], offer)
                for row, offer in zip(shape.rows, shape.offers, strict=True)
                if row.score is not None and offer is not None
            ]
            known = self._shapes.put(id(shape), (shape, made))
        return known[1]

    def _fits(
        self,
        request: Request,
        place: _Place,
        state: CandidateState | None,
        forecast: Forecast,
        now_s: float,
    ) -> bool:
        """Whether nothing rules the place out at present."""
        if (
            place.open_to_all
            and request.allowed_queues is None
            and state is not None
            and state.up
            and state.bounds is UNBOUNDED
            and state.usable_nodes is None
            and state.rights is None
            and not state.ruled_out
            and now_s - state.as_of_s <= self._settings.stale_after_s
        ):
            return True
        scored = place.row, place.offer
        stands = standing(scored, request, place.candidate, state, self._settings)
        return self._decider.excluded_now(request, stands, forecast, now_s) is None

    def _score(
        self, request: Request, place: _Place, state: CandidateState | None, now_s: float
    ) -> float:
        """With the expected wait, by who asks and when where the objective looks at that."""
        row, offer = place.row, place.offer
        live = self._objective.live
        if not live and not self._decider.counts_waits:
            return row.score  # type: ignore[return-value]
        wait_s = expected_wait_s(row.resources, place.runtime_s, state)
        if not live and not wait_s:
            return row.score  # type: ignore[return-value]
        score = self._objective.score(
            offer.at_present(self._weight * wait_s, request, state, now_s, self._turn)
        )
        return math.inf if score is None else score

    def _edit(self, request: Request, place: _Place, forecast: Forecast) -> Edit:
        if place.edit is None:
            place.edit = edit_of(request, place.candidate, place.row, forecast, self._settings)
        return place.edit

    def _listed(
        self,
        request: Request,
        states: Mapping[str, CandidateState],
        forecast: Forecast,
        found: list[_Found],
        edit: Edit,
    ) -> tuple[Ranked, ...]:
        """As ``Decider`` lists places that cannot be told apart from the best."""
        found.sort(key=lambda one: one[0])
        rows = [place.row.with_score(key[1]) for key, place in found]
        queues = []
        for row, (_, place) in zip(rows[1:], found[1:], strict=True):
            if listed_beside(rows[0], row, self._settings, states):
                other = self._edit(request, place, forecast)
                if other.queue is not None and other.same_but_queue(edit):
                    queues.append(place.candidate.queue)
        return self._first_of(tuple(dict.fromkeys(queues)), rows, but=edit.queue)

    def _first_of(
        self, queues: tuple[str, ...], rows: list[Ranked], but: str | None = None
    ) -> tuple[Ranked, ...]:
        """The best row in each of these queues."""
        return tuple(
            next(row for row in rows if self._by_name[row.candidate].queue == queue)
            for queue in queues
            if queue != but
        )
