"""From a request, the candidates, their states and a forecast to a Decision with its reason.

``decide`` is a pure function. ``Decider`` is the same made once for a site: it remembers what does
not depend on who asks or on the moment, so that the daemon decides over twenty candidates in some
tens of microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from berth.pilot.bounded import BoundedCache
from berth.policies import digest, sentences
from berth.policies.codes import Code
from berth.policies.constraints import Exclusion, Moment, present_limit_s
from berth.policies.edits import edit_of, raised_limit_s
from berth.policies.exploring import Allowance, place_to_learn
from berth.policies.objectives import OBJECTIVES, Term
from berth.policies.present import Places, Standing, places
from berth.policies.ranking import SHAPES_KEPT, Ranking, order
from berth.policies.settings import PolicySettings
from berth.policies.slice_choice import one_of_each
from berth.policies.values import (
    Candidate,
    CandidateState,
    Decision,
    Edit,
    Explored,
    Ranked,
    Request,
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
        self, candidates: Sequence[Candidate], settings: PolicySettings, *, identified: bool = True
    ) -> None:
        """``identified`` False: decisions have no digest of their inputs, as replays need none."""
        self.candidates = tuple(sorted(candidates, key=lambda c: c.name))
        if len({c.name for c in self.candidates}) != len(self.candidates):
            raise ValueError("two candidates have the same name")
        self.settings = settings
        self.objective = OBJECTIVES.load(settings.objective).of(settings, self.candidates)
        self.counts_waits = settings.weights.wait > 0 or self.objective.waits
        """Whether expected waits are looked at."""
        self._here = self._live_places if self.objective.live else self._present
        self._inputs: Callable[..., str] = self._digest
        if not identified:
            self._inputs = self._no_digest
        elif self.objective.live:
            self._inputs = self._live_digest
        self._turn, self._now_s = -1, 0.0
        self._ranking = Ranking(self.candidates, settings, self.objective)
        self._by_name = {c.name: c for c in self.candidates}
        self._has_slices = any(c.slice_of is not None for c in self.candidates)
        self._site_digest = digest.of_site(self.candidates, settings)
        self._states: Mapping[str, CandidateState] | None = None
        self._states_digest = ""
        self._oldest_s = 0.0
        self._places: BoundedCache[int, Places] = BoundedCache(SHAPES_KEPT)
        """By the identity of the ranked rows, for the present states."""

    def decide(
        self,
        request: Request,
        states: Mapping[str, CandidateState],
        forecast: Forecast | None,
        now_s: float,
        allowance: Allowance | None = None,
    ) -> Decision:
        """As the function ``decide``. ``allowance``: what may be spent on learning by this job."""
        inputs = self._inputs(request, states, forecast, now_s)
        if allowance is not None:
            inputs = digest.of_text(inputs, repr(allowance))
        alone = _left_alone(request, forecast)
        if alone is not None or forecast is None:
            code, sentence = alone or (Code.NO_PROFILE, sentences.NO_PROFILE)
            return self._decision(inputs, forecast, code, sentence)
        here = self._here(request, states, forecast)
        fits: list[Ranked] = []
        ruled_out: list[Ranked] = list(here.ruled_out)
        for place in here.standing:
            excluded = self._at_present(request, place, forecast, now_s)
            if excluded is None:
                fits.append(place.row)
            else:
                code, sentence = excluded
                row = replace(place.row, score=None, excluded=sentence, code=code.value)
                ruled_out.append(row)
        if self._has_slices:
            fits, passed_over = one_of_each(fits, self._by_name, self.settings.slices)
            ruled_out.extend(passed_over)
        ruled_out.sort(key=lambda row: row.candidate)
        ranked = (*fits, *ruled_out)
        if not fits:
            return self._decision(inputs, forecast, *_nothing_fits(ruled_out), ranked=ranked)
        if allowance is not None and forecast.whole_job:
            found = self._place_to_learn(request, fits, allowance)
            if found is not None:
                return self._to_learn(inputs, request, forecast, found, ranked)
        best = fits[0]
        edit = edit_of(request, self._by_name[best.candidate], best, forecast, self.settings)
        alike = self._alike(request, edit, fits, forecast)
        if alike:
            queues = [self._by_name[row.candidate].queue for row in alike]
            edit = replace(edit, queue=_queues(edit, queues))
        return self._decision(
            inputs,
            forecast,
            Code.PLACED,
            sentences.placed(
                best,
                fits[1:],
                ruled_out,
                self.settings,
                self.objective,
                unit=forecast.unit,
                is_slice=self._by_name[best.candidate].slice_of is not None,
                alike=alike,
            ),
            ranked=ranked,
            edit=edit,
        )

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
        if not settings.list_queues or edit.queue is None or settings.alike_within <= 1:
            return []
        found = []
        for row in fits[1:]:
            candidate = self._by_name[row.candidate]
            if not _within(best, row, settings.alike_within) or candidate.slice_of is not None:
                continue
            other = edit_of(request, candidate, row, forecast, settings)
            if other.queue is not None and replace(other, queue=edit.queue) == edit:
                found.append(row)
        return found

    def _present(
        self, request: Request, states: Mapping[str, CandidateState], forecast: Forecast
    ) -> Places:
        """The places for this shape of job by the states, best first."""
        rows = self._ranking.rows(request, forecast)
        found = self._places.get(id(rows))
        if found is None or found.rows is not rows:
            found = places(
                rows,
                request,
                states,
                candidates=self._by_name,
                settings=self.settings,
                waiting=(
                    (lambda row, state: self._scored(request, row, state, forecast))
                    if self.counts_waits
                    else None
                ),
            )
            if self.counts_waits:
                ordered = sorted(found.standing, key=lambda place: order(place.row))
                found = found._replace(standing=tuple(ordered))
            self._places.put(id(rows), found)
        return found

    def _live_places(
        self, request: Request, states: Mapping[str, CandidateState], forecast: Forecast
    ) -> Places:
        """As ``_present``, scored for who asks, at this moment and turn."""
        found = self._present(request, states, forecast)
        standing = [
            place._replace(row=self._scored(request, place.row, place.state, forecast))
            for place in found.standing
        ]
        standing.sort(key=lambda place: order(place.row))
        return found._replace(standing=tuple(standing))

    def _at_present(
        self, request: Request, place: Standing, forecast: Forecast, now_s: float
    ) -> Exclusion | None:
        row, candidate, state, checks = place
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
        self, request: Request, row: Ranked, state: CandidateState | None, forecast: Forecast
    ) -> Ranked:
        """The row with its score by the present state: with the expected wait, say."""
        candidate = self._by_name[row.candidate]
        offer = self._ranking.offer(
            request, candidate, row.resources, forecast, state, now_s=self._now_s, turn=self._turn
        )
        return row if offer is None else row.with_score(self.objective.score(offer))

    def terms(
        self,
        request: Request,
        row: Ranked,
        states: Mapping[str, CandidateState],
        forecast: Forecast,
    ) -> tuple[Term, ...]:
        """What the score of a row of the last decision is made of; nothing where it has none."""
        candidate = self._by_name[row.candidate]
        state = states.get(row.candidate)
        offer = self._ranking.offer(
            request, candidate, row.resources, forecast, state, now_s=self._now_s, turn=self._turn
        )
        return () if offer is None or row.score is None else self.objective.terms(offer)

    def _digest(
        self,
        request: Request,
        states: Mapping[str, CandidateState],
        forecast: Forecast | None,
        now_s: float,
    ) -> str:
        if states is not self._states:
            self._states, self._states_digest = states, digest.of_states(states)
            self._oldest_s = min((s.as_of_s for s in states.values()), default=0.0)
            self._places.clear()
        since_s = max(now_s - self.settings.stale_after_s, request.scheduler_since_s or 0.0)
        stale: list[str] = []
        if self._oldest_s < since_s:
            stale = [name for name, s in states.items() if s.as_of_s < since_s]
        predicted = "" if forecast is None else self._ranking.digest(forecast)
        return digest.of_text(
            self._site_digest,
            self._states_digest,
            "" if not stale else repr(sorted(stale)),
            predicted,
            digest.of_request(request),
        )

    def _no_digest(
        self,
        _request: Request,
        states: Mapping[str, CandidateState],
        _forecast: Forecast | None,
        now_s: float,
    ) -> str:
        if states is not self._states:
            self._states = states
            self._places.clear()
        self._now_s = now_s
        self._turn += self.objective.turns
        return ""

    def _live_digest(
        self,
        request: Request,
        states: Mapping[str, CandidateState],
        forecast: Forecast | None,
        now_s: float,
    ) -> str:
        """As ``_digest``, with the moment (and the turn) that the objective looks at."""
        self._now_s = now_s
        self._turn += self.objective.turns
        inputs = self._digest(request, states, forecast, now_s)
        return digest.of_text(inputs, f"{now_s!r} {self._turn}")

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


def _within(best: Ranked, row: Ranked, most: float) -> bool:
    """Whether the scores differ by less than their intervals can tell, and than ``most``."""
    if not best.score or not row.score or best.runtime_s is None or row.runtime_s is None:
        return False
    if best.guess or row.guess:
        return False
    widths = (math.log(t.high / t.low) / 2 for t in (best.runtime_s, row.runtime_s))
    apart = math.log(row.score / best.score)
    return apart <= min(math.log(most), math.hypot(*widths))


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
        return Code.NO_PROFILE, sentences.NO_PROFILE
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
