"""Turn a request, the candidates, their states and a forecast into a Decision with its reason.

Steps of a decision:
- exclude the candidates that do not suit the job (``constraints``);
- score the others (``objectives``) and cache their order (``ranking``);
- exclude those that cannot take the job now (``present``) or would give it less than it has as
  written (``gate``), and add expected waits to the scores;
- leave the job as it is where no place is better than that (``staying``);
- compute the changes to the job for the best candidate (``edits``);
- list equally good candidates beside the best (``lists``);
- write the reason as one sentence (``sentences``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from berth.policies import digest, sentences
from berth.policies.arrays import makespan
from berth.policies.bounds import present_limit_s
from berth.policies.codes import BY_FIT, PLACES, Code, Ground
from berth.policies.constraints import Exclusion
from berth.policies.edits import edit_of, raised_limit_s, with_kept_limit
from berth.policies.fit import asks_for_fit
from berth.policies.gate import move_of
from berth.policies.list_order import PlaceList, SiteNow
from berth.policies.lists import (
    edit_for,
    list_as_written,
    list_beside,
    ranked_beside,
    ranked_by,
    without_scarce,
)
from berth.policies.objectives import OBJECTIVES, JobEstimate, ScoreTerm
from berth.policies.objectives.time_and_cost import expected_wait_s
from berth.policies.present import Moment, excluded_now
from berth.policies.ranking import SHAPES_KEPT, Assessed, Assessments, Ranking, order
from berth.policies.settings import PolicySettings
from berth.policies.slice_choice import one_of_each
from berth.policies.staying import Staying, as_it_may_start, runs_nowhere, staying_of
from berth.policies.values import (
    Candidate,
    CandidateState,
    Decision,
    Edit,
    Ranked,
    Request,
)
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis


class _ForecastJob(NamedTuple):
    """One job with a forecast, and the site at the moment of its decision."""

    request: Request
    states: Mapping[str, CandidateState]
    forecast: Forecast
    staying: Staying | None
    """What is predicted of the job as written; None: nothing is."""

    def run_ratio(self, ranked: Ranked) -> float:
        """Return the predicted run time at a place divided by that of the job as written, at most
        1: whether a slower place is worth it is the objective's question."""
        if self.staying is None or ranked.runtime_s is None or self.staying.fastest_s <= 0:
            return 1.0
        return min(1.0, ranked.runtime_s.mid / self.staying.fastest_s)


class Decider:
    """Makes the decisions of a fixed site, and caches the ranking of equal requests.

    Not safe to share between threads. Callers must not change ``states`` after passing it in.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        settings: PolicySettings,
        *,
        explains: bool = True,
        shapes_kept: int = SHAPES_KEPT,
        unscored: Assessments | None = None,
    ) -> None:
        """Prepare the objective and the ranking of the site.

        ``explains`` False: decisions have neither a digest of their inputs nor a sentence (for
        replays). ``shapes_kept``: size of the cache of rankings; the oldest entry is dropped first.
        ``unscored``: cache shared with Deciders that differ in objective and weights only.
        Raises ValueError where two candidates have the same name.
        """
        self.candidates = tuple(sorted(candidates, key=lambda candidate: candidate.name))
        self._by_name = {candidate.name: candidate for candidate in self.candidates}
        if len(self._by_name) != len(self.candidates):
            raise ValueError("two candidates have the same name")
        self.settings = settings
        self.objective = OBJECTIVES.load(settings.objective).of(settings, self.candidates)
        self.counts_waits = settings.weights.wait > 0 or self.objective.waits
        """Whether scores include the expected wait."""
        self.ranking = Ranking(self.candidates, settings, self.objective, shapes_kept, unscored)
        self._explains = explains
        self._has_slices = any(one.slice_of is not None for one in self.candidates)
        self._now_s = 0.0
        self._site_digest = digest.of_site(self.candidates, settings)
        self._states: Mapping[str, CandidateState] = {}
        self._states_digest = digest.of_states({})

    def decide(
        self,
        request: Request,
        states: Mapping[str, CandidateState],
        forecast: Forecast | None,
        now_s: float,
    ) -> Decision:
        """Return the Decision for one request at ``now_s`` (Unix time); ``chosen`` is None where
        Berth leaves the job alone.

        ``states``: by candidate name; a candidate without an entry has an unknown state.
        """
        self._now_s = now_s
        inputs = self._inputs_digest(request, states, forecast)
        request = as_it_may_start(request, self._by_name, states)
        now = SiteNow(self.candidates, states, self.settings, now_s)
        by_fit = asks_for_fit(request, self.settings)
        left_alone = _left_alone(request, forecast, by_fit=by_fit)
        if left_alone is not None:
            return self._decision(inputs, forecast, *left_alone)
        if forecast is None:
            placed = list_as_written(request, None, (), now)
            if isinstance(placed, PlaceList):
                return self._placed_by_fit(inputs, request, placed, now)
            return self._decision(inputs, None, *sentences.not_by_fit(placed))
        return self._decided(inputs, request, forecast, now, by_fit=by_fit)

    def _decided(
        self, inputs: str, request: Request, forecast: Forecast, now: SiteNow, *, by_fit: bool
    ) -> Decision:
        """Return the Decision for a job with a forecast, in the order: stay, move, fit, abstain."""
        states = now.states
        staying = None
        if request.own is not None:
            staying = staying_of(
                request, self.ranking.of(request, forecast), states,
                self._at_present, self.objective.score,
            )  # fmt: skip
        job = _ForecastJob(request, states, forecast, staying)
        fitting, ruled_out = self._sorted_out(job)
        best = fitting[0] if fitting else None
        if staying is not None and not self._is_better(fitting, job, ruled_out):
            return self._decision(
                inputs, forecast, Code.STAYS, staying.sentence(best),
                ranked=(*fitting, *ruled_out),
            )  # fmt: skip
        if best is not None:
            edit, reason, ranked = self._move(job, fitting, ruled_out, now, by_fit=by_fit)
            return self._decision(inputs, forecast, Code.PLACED, reason, ranked=ranked, edit=edit)
        placed = list_as_written(request, forecast, ruled_out, now) if by_fit else {}
        if isinstance(placed, PlaceList):
            return self._placed_by_fit(
                inputs, request, placed, now, forecast=forecast, predicted=ruled_out
            )
        queues = {each.name: each.queue for each in self.candidates}
        return self._decision(
            inputs, forecast, *sentences.nothing_fits(request, ruled_out, queues),
            ranked=tuple(ruled_out),
        )  # fmt: skip

    def _move(
        self,
        job: _ForecastJob,
        fitting: Sequence[Ranked],
        ruled_out: Sequence[Ranked],
        now: SiteNow,
        *,
        by_fit: bool,
    ) -> tuple[Edit, str, tuple[Ranked, ...]]:
        """Return the changes that send the job to the best candidate and those listed beside it,
        the sentence, and all candidates as they are ranked."""
        request, states, forecast, _ = job
        best, place = fitting[0], self._by_name[fitting[0].candidate]
        edit = edit_of(request, place, best, forecast, self.settings, state=states.get(place.name))
        ranked = (*fitting, *ruled_out)
        places = None
        if self.settings.lists and place.slice_of is None:
            places = list_beside(
                request, forecast, ranked, edit, now,
                by_fit=by_fit, by_time=self.objective.by_time,
            )  # fmt: skip
        if places is None:
            edit = with_kept_limit(edit, request, [place], states)
        else:
            edit = edit_for(places, edit, request, now)
            ranked = ranked_beside(places, fitting, ruled_out)
        reason = self._reason(job, ranked, places) if self._explains else ""
        return edit, reason, ranked

    def terms(
        self,
        request: Request,
        ranked: Ranked,
        states: Mapping[str, CandidateState],
        forecast: Forecast,
    ) -> tuple[ScoreTerm, ...]:
        """Return the parts of the score of a ranked candidate of the last decision.

        The tuple is empty where the candidate has no score.
        """
        estimate = next(
            one.estimate
            for one in self.ranking.of(request, forecast)
            if one.ranked.candidate == ranked.candidate
        )
        if estimate is None or ranked.score is None:
            return ()
        state = states.get(ranked.candidate)
        return self.objective.terms(self._at_present(estimate, request, state))

    def _is_better(
        self, fitting: Sequence[Ranked], job: _ForecastJob, ruled_out: Sequence[Ranked]
    ) -> bool:
        """Return whether a move beats staying: by its score, or because a list of places that are
        as good has other nodes as well. A MIG slice is chosen by its size (``slices``)."""
        own, staying = job.request.own, job.staying
        if not fitting or staying is None or own is None:
            return all(ranked.code != Code.NO_BETTER for ranked in ruled_out)
        if staying.over(fitting[0]) > 1 + 1e-9 or self._by_name[fitting[0].candidate].slice_of:
            return True
        leads_elsewhere = any(ranked.candidate not in (own.places or ()) for ranked in fitting)
        return self.settings.lists and leads_elsewhere

    def _sorted_out(self, job: _ForecastJob) -> tuple[list[Ranked], list[Ranked]]:
        """Return the candidates that fit now, best first, and the excluded candidates, sorted by
        name.
        """
        request, states, forecast, staying = job
        fitting: list[Ranked] = []
        ruled_out: list[Ranked] = []
        for assessed in self.ranking.of(request, forecast):
            if assessed.ranked.score is None:
                ruled_out.append(assessed.ranked)
                continue
            state = states.get(assessed.candidate.name)
            ranked = self._scored(request, assessed, state)
            if staying is not None and assessed.candidate.slice_of is None:
                ranked = staying.no_worse(ranked, self.settings.alike_within)
            excluded = ranked.score is not None and self._excluded(job, assessed, state)
            if excluded:
                ranked = ranked._replace(
                    score=None, excluded=excluded.sentence, code=excluded.code.value
                )
            (ruled_out if ranked.score is None else fitting).append(ranked)
        fitting.sort(key=order)
        fitting, kept = without_scarce(fitting, self._by_name)
        ruled_out += kept
        if self._has_slices:
            fitting, passed_over = one_of_each(fitting, self._by_name, self.settings.slices)
            ruled_out += passed_over
        ruled_out.sort(key=lambda ranked: ranked.candidate)
        return fitting, ruled_out

    def _excluded(
        self, job: _ForecastJob, assessed: Assessed, state: CandidateState | None
    ) -> Exclusion | None:
        request, candidate = job.request, assessed.candidate
        ranked, settings = assessed.ranked, self.settings
        limit_s = None
        if state is not None and state.rights is not None:  # only these limits depend on it
            if job.forecast.whole_job:
                limit_s = raised_limit_s(request, candidate, ranked, settings)
            limit_s = limit_s or present_limit_s(request, candidate)
        return excluded_now(
            Moment(
                request, candidate, settings, ranked.resources, state, self._now_s, limit_s,
                job.run_ratio(ranked),
            )
        )  # fmt: skip

    def _scored(self, request: Request, assessed: Assessed, state: CandidateState | None) -> Ranked:
        _, ranked, estimate = assessed
        if estimate is None:
            return ranked
        if request.array is None:
            waits = self.counts_waits and expected_wait_s(
                estimate.resources, estimate.runtime_s.mid, state
            )
            if not waits:
                return ranked  # the score does not depend on the present state
        estimate = self._at_present(estimate, request, state)
        return ranked._replace(score=self.objective.score(estimate), makespan=estimate.makespan)

    def _at_present(
        self, estimate: JobEstimate, request: Request, state: CandidateState | None
    ) -> JobEstimate:
        if request.array is None:
            expected = None
            wait_s = expected_wait_s(estimate.resources, estimate.runtime_s.mid, state)
            time_s = estimate.time_s + self.settings.weights.wait * wait_s
        else:
            expected = makespan(request, request.array, estimate, state)
            time_s = expected.seconds
        return estimate._replace(
            time_s=time_s, request=request, state=state, makespan=expected
        )  # fmt: skip

    def _placed_by_fit(
        self,
        inputs: str,
        request: Request,
        places: PlaceList,
        now: SiteNow,
        *,
        forecast: Forecast | None = None,
        predicted: Sequence[Ranked] = (),
    ) -> Decision:
        reason = sentences.fits(places, is_known=bool(predicted)) if self._explains else ""
        edit = edit_for(places, Edit(), request, now)
        ranked = ranked_by(places, request, predicted, now)
        decision = self._decision(inputs, forecast, places.code, reason, ranked=ranked, edit=edit)
        if forecast is None or forecast.kind != "history":
            return decision
        if not (places.by_time or places.slower):
            return decision
        # Kernels, where nothing but benchmark kernels tells some of the ratios.
        listed = {fit.candidate.name for fit in places.fits}
        by_kernels = any(r.basis is Basis.PRIOR for r in ranked if r.candidate in listed)
        return replace(decision, ground=Ground.KERNELS if by_kernels else Ground.POPULATION)

    def _reason(self, job: _ForecastJob, ranked: Sequence[Ranked], places: PlaceList | None) -> str:
        request, states, forecast, staying = job
        best, place = ranked[0], self._by_name[ranked[0].candidate]
        placed = sentences.placed(
            best,
            ranked[1:],
            self.settings,
            self.objective,
            unit=forecast.unit,
            is_slice=place.slice_of is not None,
            places=places,
            staying=None if staying is None else staying.beside(best),
            runs_only_here=runs_nowhere(request, self.ranking.of(request, forecast)),
        )
        move = move_of(request, place, best.resources, states.get(place.name), job.run_ratio(best))
        return (
            placed
            + sentences.short_of_memory(request.resources.memory_bytes_per_node, best)
            + ("" if move is None else sentences.costs_more(move.bill_ratio))
        )

    def _inputs_digest(
        self,
        request: Request,
        states: Mapping[str, CandidateState],
        forecast: Forecast | None,
    ) -> str:
        if not self._explains:
            return ""
        if states is not self._states:
            self._states, self._states_digest = states, digest.of_states(states)
        since_s = max(self._now_s - self.settings.stale_after_s, request.scheduler_since_s or 0.0)
        stale = sorted(name for name, state in states.items() if state.as_of_s < since_s)
        return digest.of_text(
            self._site_digest,
            self._states_digest,
            "" if forecast is None else forecast.content_digest,
            digest.of_request(request),
            str(stale),
        )

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
            ground=_ground_of(code, forecast, ranked[0] if ranked else None),
        )


def _ground_of(code: str, forecast: Forecast | None, chosen: Ranked | None) -> Ground | None:
    if code not in PLACES or chosen is None:
        return None
    if forecast is None or code in BY_FIT:
        return Ground.FIT
    if forecast.kind == "history":
        if chosen.basis is Basis.PRIOR:
            return Ground.KERNELS
        return Ground.RUNS if chosen.basis is Basis.MEASURED else Ground.POPULATION
    return Ground.MEASURED if forecast.kind == "program" else Ground.DESCRIBED


def _left_alone(
    request: Request, forecast: Forecast | None, *, by_fit: bool
) -> tuple[Code, str] | None:
    """Return the code and sentence of a reason to leave the job alone on every candidate; None:
    no reason.

    ``by_fit``: the job may be placed without a forecast.
    """
    if request.opted_out:
        return Code.OPTED_OUT, "You asked Berth to leave this job alone."
    if forecast is None and not by_fit:
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
