"""From a request, the candidates, their states and a forecast to a Decision with its reason.

``decide`` is a pure function. ``Decider`` is the same made once for a site: it remembers what does
not depend on who asks or on the moment, so that the daemon decides over twenty candidates in some
tens of microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from berth.pilot.bounded import BoundedCache
from berth.policies import digest, sentences
from berth.policies.arrays import makespan
from berth.policies.codes import Code
from berth.policies.constraints import Exclusion, Moment, present_limit_s
from berth.policies.edits import changed_alike, edit_of, raised_limit_s
from berth.policies.exploring import Allowance, place_to_learn
from berth.policies.objectives import OBJECTIVES, Offer, Term
from berth.policies.objectives.costs import expected_wait_s
from berth.policies.present import Places, Standing, alike, checked, places, read_again
from berth.policies.ranking import SHAPES_KEPT, Ranking, Remembered, Shape, order
from berth.policies.settings import ListBy, PolicySettings
from berth.policies.slice_choice import one_of_each
from berth.policies.values import (
    Candidate,
    CandidateState,
    Decision,
    Edit,
    Explored,
    Ranked,
    Request,
    TaskArray,
)
from berth.predictor.core.forecast import Forecast


def decide(
    request: Request,
    candidates: Sequence[Candidate],
    states: Mapping[str, CandidateState],
    forecast: Forecast | None,
    settings: PolicySettings,
    *,
    now_s: float,
) -> Decision:
    """The Decision for one request; ``chosen`` is None where Berth leaves the job alone.

    ``now_s`` is Unix time. ``states`` holds one state by candidate name; one that lacks is
    an unknown state. Raises ValueError where two candidates share a name.
    """
    return Decider(candidates, settings).decide(request, states, forecast, now_s)


class Decider:
    """``decide`` for a fixed site. ``states`` passed to it must not be changed afterwards.

    Not safe to share between threads.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        settings: PolicySettings,
        *,
        identified: bool = True,
        remembered: Remembered | None = None,
    ) -> None:
        """``identified`` False: decisions have neither a digest of their inputs nor a sentence, as
        replays need none. ``remembered``: shared with other policies for the same candidates."""
        self.candidates = tuple(sorted(candidates, key=lambda c: c.name))
        if len({c.name for c in self.candidates}) != len(self.candidates):
            raise ValueError("two candidates have the same name")
        self.settings = settings
        self.objective = OBJECTIVES.load(settings.objective).of(settings, self.candidates)
        self.counts_waits = settings.weights.wait > 0 or self.objective.waits
        """Whether expected waits are looked at."""
        self._here = self._live_places if self.objective.live else self._present
        self._identified = identified
        self._turn, self._now_s = -1, 0.0
        self.ranking = Ranking(
            self.candidates, settings, self.objective, remembered or Remembered()
        )
        self._by_name = {c.name: c for c in self.candidates}
        self._has_slices = any(c.slice_of is not None for c in self.candidates)
        self._site_digest = digest.of_site(self.candidates, settings)
        self._states: Mapping[str, CandidateState] | None = None
        self._states_digest: str | None = None
        self._oldest_s = 0.0
        self._with_room = (
            self.counts_waits
            or self.objective.live
            or (settings.lists and settings.list_by is not ListBy.SCORE)
        )
        """Whether decisions look at what is idle or waits."""
        self._compared: dict[str, tuple[CandidateState | None, bool]] = {}
        """Whether the present reading of a place says the same as another one of it."""
        self._compared_for_arrays: dict[str, tuple[CandidateState | None, bool]] = {}
        """The same with what is idle or waits, which arrays always look at."""
        self._places: BoundedCache[int, tuple[Mapping[str, CandidateState], Places]] = BoundedCache(
            SHAPES_KEPT
        )
        """By the identity of the ranked rows, with the states that they were made for."""
        self._answers: BoundedCache[tuple[int, frozenset[str | None]], tuple[object, Decision]] = (
            BoundedCache(SHAPES_KEPT)
        )
        """By what places were made and the queues of theirs that may be used; without a digest
        of the inputs."""

    def decide(
        self,
        request: Request,
        states: Mapping[str, CandidateState],
        forecast: Forecast | None,
        now_s: float,
        allowance: Allowance | None = None,
    ) -> Decision:
        """As the function ``decide``. ``allowance``: what may be spent on learning by this job."""
        self._look(states, now_s)
        inputs = self._digest(request, states, forecast) if self._identified else ""
        if allowance is not None:
            inputs = digest.of_text(inputs, repr(allowance))
        alone = _left_alone(request, forecast)
        if alone is not None or forecast is None:
            code, sentence = alone or (Code.NO_WORKLOAD, sentences.NO_WORKLOAD)
            return self._decision(inputs, forecast, code, sentence)
        here = self._here(request, states, forecast)
        by_queue_alone = now_s - here.oldest_s <= self.settings.stale_after_s
        if by_queue_alone and allowance is None and not self.objective.live:
            made = self._known(request, here, forecast, now_s)
            return made.with_inputs(inputs) if self._identified else made
        found = self._sorted_out(request, here, forecast, now_s)
        return self._among(inputs, request, forecast, found, allowance)

    def _known(self, request: Request, here: Places, forecast: Forecast, now_s: float) -> Decision:
        """Of places that only their queue can rule out: the same for all who may use the same."""
        asked = request.allowed_queues
        usable = here.queues if asked is None else here.queues & asked
        key = (id(here.made), usable)
        known = self._answers.get(key)
        if known is None or known[0] is not here.made:
            if usable == here.queues:
                found = [place.row for place in here.standing], list(here.ruled_out)
            else:
                found = self._sorted_out(request, here, forecast, now_s)
            known = self._answers.put(key, (here.made, self._among("", request, forecast, found)))
        return known[1]

    def _sorted_out(
        self, request: Request, here: Places, forecast: Forecast, now_s: float
    ) -> tuple[list[Ranked], list[Ranked]]:
        """Those that fit, best first, and those that do not."""
        fits, ruled_out = [], list(here.ruled_out)
        for place in here.standing:
            excluded = self.excluded_now(request, place, forecast, now_s)
            if excluded is None:
                fits.append(place.row)
            else:
                code, sentence = excluded
                row = place.row._replace(score=None, excluded=sentence, code=code.value)
                ruled_out.append(row)
        return fits, ruled_out

    def _among(
        self,
        inputs: str,
        request: Request,
        forecast: Forecast,
        found: tuple[list[Ranked], list[Ranked]],
        allowance: Allowance | None = None,
    ) -> Decision:
        """The Decision between places that fit, best first, and those that do not."""
        fits, ruled_out = found
        if self._has_slices:
            fits, passed_over = one_of_each(fits, self._by_name, self.settings.slices)
            ruled_out.extend(passed_over)
        ruled_out.sort(key=lambda row: row.candidate)
        ranked = (*fits, *ruled_out)
        if not fits:
            return self._decision(inputs, forecast, *_nothing_fits(ruled_out), ranked=ranked)
        if allowance is not None and forecast.whole_job:
            explored = self._place_to_learn(request, fits, allowance)
            if explored is not None:
                return self._to_learn(inputs, request, forecast, explored, ranked)
        best = fits[0]
        edit = edit_of(request, self._by_name[best.candidate], best, forecast, self.settings)
        alike = self._alike(request, edit, fits, forecast)
        if alike:
            queues = [self._by_name[row.candidate].queue for row in alike]
            edit = edit.with_queue(_queues(edit, queues))
        reason = "" if not self._identified else sentences.placed(
            best,
            fits[1:],
            ruled_out,
            self.settings,
            self.objective,
            unit=forecast.unit,
            is_slice=self._by_name[best.candidate].slice_of is not None,
            alike=alike,
        )  # fmt: skip
        if self._identified:
            reason += sentences.short_of_memory(request.resources.memory_bytes_per_node, best)
        return self._decision(inputs, forecast, Code.PLACED, reason, ranked=ranked, edit=edit)

    def _place_to_learn(
        self, request: Request, fits: Sequence[Ranked], allowance: Allowance
    ) -> tuple[Ranked, Explored] | None:
        candidates, settings = self._by_name, self.settings

        def keeps_limit(row: Ranked) -> bool:
            return raised_limit_s(request, candidates[row.candidate], row, settings) is None

        return place_to_learn(
            request, fits, candidates, settings, allowance, keeps_limit=keeps_limit
        )

    def _to_learn(
        self,
        inputs: str,
        request: Request,
        forecast: Forecast,
        found: tuple[Ranked, Explored],
        ranked: tuple[Ranked, ...],
    ) -> Decision:
        """The job goes to a place that is not the best, for what its run tells."""
        row, explored = found
        best = ranked[0]
        made = self._decision(
            inputs,
            forecast,
            Code.EXPLORED,
            sentences.explored(row, best, self.settings.explore.worst),
            ranked=(row, *(one for one in ranked if one is not row)),
            edit=edit_of(request, self._by_name[row.candidate], row, forecast, self.settings),
        )
        return replace(made, explored=explored)

    def _alike(
        self, request: Request, edit: Edit, fits: Sequence[Ranked], forecast: Forecast
    ) -> list[Ranked]:
        """Places that cannot be told apart from the best, ``fits[0]``, by the same edit."""
        best, settings = fits[0], self.settings
        if not settings.lists or edit.queue is None:
            return []
        states = self._states or {}
        found = []
        like, its_place, same = best, self._by_name[best.candidate], True
        for row in fits[1:]:
            candidate = self._by_name[row.candidate]
            if candidate.slice_of is not None or not listed_beside(best, row, settings, states):
                continue
            if not changed_alike(like, row, its_place, candidate):
                like, its_place = row, candidate
                same = edit_of(request, candidate, row, forecast, settings).same_but_queue(edit)
            if same and request.queue != candidate.queue:
                found.append(row)
        return found

    def _present(
        self, request: Request, states: Mapping[str, CandidateState], forecast: Forecast
    ) -> Places:
        """The places for this shape of job by the states, best first."""
        shape = self.ranking.shape(request, forecast)
        before = self._places.get(id(shape))
        if before is None or before[1].shape is not shape:
            found = self._seen_anew(request, shape, None, states)
        elif before[0] is states:
            return before[1]
        elif all(place.state is states.get(place.row.candidate) for place in before[1].as_ranked):
            found = before[1]
        else:
            found = self._seen_anew(request, shape, before[1], states)
        self._places.put(id(shape), (states, found))
        return found

    def _seen_anew(
        self,
        request: Request,
        shape: Shape,
        before: Places | None,
        states: Mapping[str, CandidateState],
    ) -> Places:
        """``before``: those of another reading; of them stays what this one says the same of."""
        is_array = request.array is not None
        scored = (self.counts_waits or is_array) and not self.objective.live
        found, moved, same = [], False, scored or not self._with_room
        known: Sequence[Standing | None] = (
            (None,) * len(shape.rows) if before is None else before.as_ranked
        )
        for row, offer, place in zip(shape.rows, shape.offers, known, strict=False):
            if row.score is None:
                break  # they come last
            state = states.get(row.candidate)
            if place is not None and self._says_same(
                row.candidate, place.state, state, is_array=is_array
            ):
                found.append(place if place.state is state else place.read_again(state))
                moved = moved or place.row is not row
                continue
            here = self._scored(request, row, offer, state) if scored else row
            moved = moved or here is not row
            stands = self._standing(request, shape, here, offer, state)
            same = same and place is not None and place.says_same(stands)
            found.append(stands)
        if same and before is not None:
            return read_again(before, tuple(found), states)
        in_order = sorted(found, key=lambda place: order(place.row)) if moved else found
        return places(shape, tuple(found), in_order)

    def _standing(
        self,
        request: Request,
        shape: Shape,
        row: Ranked,
        offer: Offer | None,
        state: CandidateState | None,
    ) -> Standing:
        """A place that fits, with what may rule it out by this reading."""
        name = row.candidate
        candidate, known = self._by_name[name], shape.checked.get(name)
        if known is None or known.state is not state:
            known = checked(request, candidate, row.resources, state, self.settings)
            shape.checked[name] = known
        return Standing(row, offer, candidate, state, known.checks, known.open_to_all)

    def _says_same(
        self,
        name: str,
        before: CandidateState | None,
        state: CandidateState | None,
        *,
        is_array: bool,
    ) -> bool:
        """Of two readings of a place, the second of them the present one."""
        compared = self._compared_for_arrays if is_array else self._compared
        known = compared.get(name)
        if known is None or known[0] is not before:
            known = before, alike(before, state, with_room=self._with_room or is_array)
            compared[name] = known
        return known[1]

    def _live_places(
        self, request: Request, states: Mapping[str, CandidateState], forecast: Forecast
    ) -> Places:
        """As ``_present``, scored for who asks, at this moment and turn."""
        found = self._present(request, states, forecast)
        scored = [
            place._replace(row=self._scored(request, place.row, place.offer, place.state))
            for place in found.standing
        ]
        scored.sort(key=lambda place: order(place.row))
        return places(found.shape, found.as_ranked, scored)

    def excluded_now(
        self, request: Request, place: Standing, forecast: Forecast, now_s: float
    ) -> Exclusion | None:
        """Why a place that fits the job is ruled out at present; None: it is not."""
        row, _, candidate, state, checks, open_to_all = place
        if open_to_all and state is not None:
            fresh = now_s - state.as_of_s <= self.settings.stale_after_s
            if fresh and (
                request.allowed_queues is None or candidate.queue in request.allowed_queues
            ):
                return None
        limit_s = None
        if state is not None and state.rights is not None:  # nothing else asks for it
            raised_s = (
                raised_limit_s(request, candidate, row, self.settings)
                if forecast.whole_job
                else None
            )
            limit_s = raised_s or present_limit_s(request, candidate)
        moment = Moment(request, candidate, self.settings, row.resources, state, now_s, limit_s)
        for constraint in checks:
            excluded = constraint(moment)
            if excluded is not None:
                return excluded
        return None

    def _scored(
        self, request: Request, row: Ranked, offer: Offer | None, state: CandidateState | None
    ) -> Ranked:
        """The row with its score by the present state: with the expected wait, say."""
        if offer is None:
            return row
        if request.array is not None:
            offer = self._array_at_present(request, request.array, offer, state)
            return row._replace(score=self.objective.score(offer), makespan=offer.makespan)
        wait_s = expected_wait_s(row.resources, offer.runtime_s.mid, state)
        if wait_s == 0 and not self.objective.live:
            return row  # as it was ranked: only the expected wait of the state is in the score
        offer = self._at_present(offer, request, state, wait_s)
        return row.with_score(self.objective.score(offer))

    def _array_at_present(
        self, request: Request, array: TaskArray, offer: Offer, state: CandidateState | None
    ) -> Offer:
        there = makespan(request, array, offer, state)
        return offer.of_array(there, request, state, self._now_s, self._turn)

    def _at_present(
        self, offer: Offer, request: Request, state: CandidateState | None, wait_s: float
    ) -> Offer:
        late_s = self.settings.weights.wait * wait_s
        return offer.at_present(late_s, request, state, self._now_s, self._turn)

    def terms(
        self,
        request: Request,
        row: Ranked,
        states: Mapping[str, CandidateState],
        forecast: Forecast,
    ) -> tuple[Term, ...]:
        """What the score of a row of the last decision is made of; nothing where it has none."""
        shape = self.ranking.shape(request, forecast)
        offer = next(
            offer
            for one, offer in zip(shape.rows, shape.offers, strict=True)
            if one.candidate == row.candidate
        )
        if offer is None or row.score is None:
            return ()
        state = states.get(row.candidate)
        if request.array is not None:
            return self.objective.terms(
                self._array_at_present(request, request.array, offer, state)
            )
        wait_s = expected_wait_s(row.resources, offer.runtime_s.mid, state)
        return self.objective.terms(self._at_present(offer, request, state, wait_s))

    def _look(self, states: Mapping[str, CandidateState], now_s: float) -> None:
        """The moment, the turn and the reading that the next decision is made from."""
        self._now_s = now_s
        self._turn += self.objective.turns
        if states is not self._states:
            self._states, self._states_digest = states, None
            self._compared.clear()
            self._compared_for_arrays.clear()
            self._oldest_s = min((s.as_of_s for s in states.values()), default=0.0)

    def _digest(
        self,
        request: Request,
        states: Mapping[str, CandidateState],
        forecast: Forecast | None,
    ) -> str:
        """Of all that the decision is made from, after ``_look``."""
        if self._states_digest is None:
            self._states_digest = digest.of_states(states)
        since_s = max(self._now_s - self.settings.stale_after_s, request.scheduler_since_s or 0.0)
        stale: list[str] = []
        if self._oldest_s < since_s:
            stale = [name for name, s in states.items() if s.as_of_s < since_s]
        inputs = digest.of_text(
            self._site_digest,
            self._states_digest,
            "" if not stale else repr(sorted(stale)),
            "" if forecast is None else self.ranking.digest(forecast),
            digest.of_request(request),
        )
        if not self.objective.live:
            return inputs
        return digest.of_text(inputs, f"{self._now_s!r} {self._turn}")

    def _decision(
        self,
        inputs: str,
        forecast: Forecast | None,
        code: str,
        sentence: str,
        *,
        ranked: tuple[Ranked, ...] = (),
        edit: Edit | None = None,
    ) -> Decision:
        return Decision(
            id=inputs[:16],
            chosen=None if edit is None else ranked[0].candidate,
            ranked=ranked,
            edit=edit,
            reason=sentence,
            policy=self.settings.objective,
            bundle="" if forecast is None else forecast.bundle,
            inputs_digest=inputs,
            code=str(code),
        )


def listed_beside(
    best: Ranked,
    row: Ranked,
    settings: PolicySettings,
    states: Mapping[str, CandidateState],
) -> bool:
    """Whether a job that goes to ``best`` may start at the place of ``row``, too."""
    if settings.list_by is ListBy.SCORE:
        return _within(best, row, settings.alike_within)
    if best.guess or row.guess or best.runtime_s is None or row.runtime_s is None:
        return False
    late_s = _wait_s(row, states) - _wait_s(best, states)
    return row.length_s <= best.length_s + max(0.0, late_s)


def _wait_s(row: Ranked, states: Mapping[str, CandidateState]) -> float:
    if row.makespan is not None:
        return row.makespan.wait_s
    return expected_wait_s(row.resources, row.length_s, states.get(row.candidate))


def _within(best: Ranked, row: Ranked, most: float) -> bool:
    """Whether the scores differ by less than their intervals can tell, and than ``most``."""
    if not best.score or not row.score or best.runtime_s is None or row.runtime_s is None:
        return False
    if best.guess or row.guess:
        return False
    apart = row.score / best.score
    if apart > most:
        return False
    if apart <= 1.0:
        return True
    widths = (math.log(t.high / t.low) / 2 for t in (best.runtime_s, row.runtime_s))
    return math.log(apart) <= math.hypot(*widths)


def _queues(edit: Edit, others: Sequence[str]) -> str | None:
    """The queue of the edit and those of ``others``, each once, in that order."""
    if edit.queue is None:
        return None
    return ",".join(dict.fromkeys((edit.queue, *others)))


def _left_alone(request: Request, forecast: Forecast | None) -> tuple[Code, str] | None:
    """Reasons that hold for every candidate."""
    if request.opted_out:
        return Code.OPTED_OUT, "You asked Berth to leave this job alone."
    if forecast is None:
        return Code.NO_WORKLOAD, sentences.NO_WORKLOAD
    if "nodelist" in request.pinned:
        return Code.PINNED_NODES, "You named the nodes yourself."
    if request.component is not None:
        return (
            Code.TOGETHER,
            "Components of a heterogeneous job must start together, and each is seen alone.",
        )
    if "reservation" in request.pinned:
        return Code.PINNED_RESERVATION, "You named a reservation."
    return None


def _nothing_fits(ruled_out: Sequence[Ranked]) -> tuple[str, str]:
    """The common reason of all exclusions, or that there are several."""
    codes = {row.code for row in ruled_out}
    if len(codes) == 1 and (only := codes.pop()) is not None:
        return only, sentences.nothing_fits(ruled_out, same=True)
    return Code.NO_CANDIDATE.value, sentences.nothing_fits(ruled_out, same=False)
