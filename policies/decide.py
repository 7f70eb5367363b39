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
from berth.policies.codes import Code
from berth.policies.constraints import Exclusion, present_limit_s
from berth.policies.edits import edit_of, raised_limit_s, with_kept_limit, without_needless_type
from berth.policies.fit import Fit, asks_for_fit
from berth.policies.fit_lists import (
    Now,
    fit_list,
    joined,
    losses_of,
    unpredicted_beside,
    with_fitting,
)
from berth.policies.gate import move_of
from berth.policies.grounds import ground_of, ground_of_ratios
from berth.policies.lists import listed_beside, with_queues
from berth.policies.objectives import OBJECTIVES, Estimate, Term
from berth.policies.objectives.costs import expected_wait_s
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


def decide(
    request: Request,
    candidates: Sequence[Candidate],
    states: Mapping[str, CandidateState],
    forecast: Forecast | None,
    settings: PolicySettings,
    *,
    now_s: float,
) -> Decision:
    """Return the Decision for one request; ``chosen`` is None where Berth leaves the job alone.

    ``now_s`` is Unix time. ``states`` maps candidate names to states; a candidate without an entry
    has an unknown state. Raises ValueError where two candidates have the same name.
    """
    return Decider(candidates, settings).decide(request, states, forecast, now_s)


class _Question(NamedTuple):
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
    """Makes the decisions of a fixed site, as ``decide`` does, and caches the ranking of equal
    requests.

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
        """Return the Decision for one request at ``now_s`` (Unix time), as the function
        ``decide`` does.
        """
        self._now_s = now_s
        inputs = self._inputs_digest(request, states, forecast)
        request = as_it_may_start(request, self._by_name, states)
        by_fit = asks_for_fit(request, self.settings)
        left_alone = _left_alone(request, forecast, by_fit=by_fit)
        if left_alone is not None:
            return self._decision(inputs, forecast, *left_alone)
        if forecast is None:
            return self._placed_by_fit(inputs, request, states) or self._decision(
                inputs, forecast, *self._not_by_fit(request, states)
            )
        staying = self._staying(request, states, forecast)
        question = _Question(request, states, forecast, staying)
        fitting, ruled_out = self._sorted_out(question)
        best = fitting[0] if fitting else None
        if staying is not None and not self._is_better(fitting, question, ruled_out):
            return self._decision(
                inputs, forecast, Code.STAYS, staying.sentence(best),
                ranked=(*fitting, *ruled_out),
            )  # fmt: skip
        if best is None:
            placed = by_fit and self._placed_by_fit(inputs, request, states, forecast, ruled_out)
            return placed or self._decision(
                inputs, forecast, *self._nothing_fits(request, ruled_out), ranked=tuple(ruled_out)
            )
        edit, reason, ranked = self._move(question, fitting, ruled_out, by_fit=by_fit)
        return self._decision(inputs, forecast, Code.PLACED, reason, ranked=ranked, edit=edit)

    def _move(
        self,
        question: _Question,
        fitting: Sequence[Ranked],
        ruled_out: Sequence[Ranked],
        *,
        by_fit: bool,
    ) -> tuple[Edit, str, tuple[Ranked, ...]]:
        """Return the changes that send the job to the best candidate and those listed beside it,
        the sentence, and all candidates as they are ranked."""
        request, states, forecast, _ = question
        best, place = fitting[0], self._by_name[fitting[0].candidate]
        edit = without_needless_type(
            edit_of(request, place, best, forecast, self.settings),
            place, states.get(place.name), forecast,
        )  # fmt: skip
        beside = listed_beside(
            request, edit, fitting,
            candidates=self._by_name, states=states, forecast=forecast, settings=self.settings,
            by_time=self.objective.by_time,
        )  # fmt: skip
        places = [place, *(self._by_name[each.candidate] for each in beside)]
        edit = with_queues(edit, [each.queue for each in places[1:]])
        joining: list[Fit] = []
        if by_fit:
            before, after = unpredicted_beside(
                request, forecast, edit, place, ruled_out=ruled_out, now=self._now(states)
            )
            if not self.objective.by_time:
                before, after = [], [*before, *after]
            edit, joining = joined(edit, before, after), [*before, *after]
        places += [fit.candidate for fit in joining]
        reason = ""
        if self._explains:
            reason = self._reason(question, fitting, ruled_out, beside)
            reason += sentences.joining(joining) + self._costs_more(question, best)
        ranked = (*fitting, *with_fitting(ruled_out, joining))
        return with_kept_limit(edit, request, places, states), reason, ranked

    def _nothing_fits(self, request: Request, ruled_out: Sequence[Ranked]) -> tuple[str, str]:
        """Return the code and sentence for a job that no candidate fits.

        The code is the one that all exclusions have in common, else ``no-candidate``; places that
        can never run the program count only where no other place has a reason.
        """
        reasons = sentences.changeable(ruled_out)
        codes = {ranked.code for ranked in reasons}
        only = codes.pop() if len(codes) == 1 else None
        if only == Code.OTHER_QUEUE and request.queue is not None:
            places = {each.name: each.queue for each in self.candidates}
            return only, sentences.chosen_queue(request.queue, ruled_out, places)
        if only is not None:
            return only, sentences.nothing_fits(reasons, same=True)
        return Code.NO_CANDIDATE.value, sentences.nothing_fits(reasons, same=False)

    def terms(
        self,
        request: Request,
        ranked: Ranked,
        states: Mapping[str, CandidateState],
        forecast: Forecast,
    ) -> tuple[Term, ...]:
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

    def _staying(
        self, request: Request, states: Mapping[str, CandidateState], forecast: Forecast
    ) -> Staying | None:
        if request.own is None:
            return None
        return staying_of(
            request, self.ranking.of(request, forecast), states,
            self._at_present, self.objective.score,
        )  # fmt: skip

    def _is_better(
        self, fitting: Sequence[Ranked], question: _Question, ruled_out: Sequence[Ranked]
    ) -> bool:
        """Return whether a move beats staying: by its score, or because a list of places that are
        as good has other nodes as well. A MIG slice is chosen by its size (``slices``)."""
        own, staying = question.request.own, question.staying
        if not fitting or staying is None or own is None:
            return all(ranked.code != Code.NO_BETTER for ranked in ruled_out)
        if staying.over(fitting[0]) > 1 + 1e-9 or self._by_name[fitting[0].candidate].slice_of:
            return True
        leads_elsewhere = any(ranked.candidate not in (own.places or ()) for ranked in fitting)
        return self.settings.lists and leads_elsewhere

    def _costs_more(self, question: _Question, best: Ranked) -> str:
        move = move_of(
            question.request, self._by_name[best.candidate], best.resources,
            question.states.get(best.candidate), question.run_ratio(best),
        )  # fmt: skip
        return "" if move is None else sentences.costs_more(move.bill_ratio)

    def _sorted_out(self, question: _Question) -> tuple[list[Ranked], list[Ranked]]:
        """Return the candidates that fit now, best first, and the excluded candidates, sorted by
        name.
        """
        request, states, forecast, staying = question
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
            excluded = ranked.score is not None and self._excluded(question, assessed, state)
            if excluded:
                ranked = ranked._replace(
                    score=None, excluded=excluded.sentence, code=excluded.code.value
                )
            (ruled_out if ranked.score is None else fitting).append(ranked)
        fitting.sort(key=order)
        if self._has_slices:
            fitting, passed_over = one_of_each(fitting, self._by_name, self.settings.slices)
            ruled_out += passed_over
        ruled_out.sort(key=lambda ranked: ranked.candidate)
        return fitting, ruled_out

    def _excluded(
        self, question: _Question, assessed: Assessed, state: CandidateState | None
    ) -> Exclusion | None:
        request, candidate = question.request, assessed.candidate
        ranked, settings = assessed.ranked, self.settings
        limit_s = None
        if state is not None and state.rights is not None:  # only these limits depend on it
            if question.forecast.whole_job:
                limit_s = raised_limit_s(request, candidate, ranked, settings)
            limit_s = limit_s or present_limit_s(request, candidate)
        return excluded_now(
            Moment(
                request, candidate, settings, ranked.resources, state, self._now_s, limit_s,
                question.run_ratio(ranked),
            )
        )  # fmt: skip

    def _scored(self, request: Request, assessed: Assessed, state: CandidateState | None) -> Ranked:
        _, ranked, estimate = assessed
        if estimate is None:
            return ranked
        if request.array is None and not self.objective.live:
            waits = self.counts_waits and expected_wait_s(
                estimate.resources, estimate.runtime_s.mid, state
            )
            if not waits:
                return ranked  # the score does not depend on the present state
        estimate = self._at_present(estimate, request, state)
        return ranked._replace(score=self.objective.score(estimate), makespan=estimate.makespan)

    def _at_present(
        self, estimate: Estimate, request: Request, state: CandidateState | None
    ) -> Estimate:
        if request.array is None:
            expected = None
            wait_s = expected_wait_s(estimate.resources, estimate.runtime_s.mid, state)
            time_s = estimate.time_s + self.settings.weights.wait * wait_s
        else:
            expected = makespan(request, request.array, estimate, state)
            time_s = expected.seconds
        return estimate._replace(
            time_s=time_s, request=request, state=state, now_s=self._now_s, makespan=expected
        )  # fmt: skip

    def _placed_by_fit(
        self,
        inputs: str,
        request: Request,
        states: Mapping[str, CandidateState],
        forecast: Forecast | None = None,
        ruled_out: Sequence[Ranked] = (),
    ) -> Decision | None:
        """Return the Decision for the queues where the job fits as written; None: it fits in none.

        ``ruled_out``: the candidates with what is predicted of them.
        """
        placed = fit_list(request, forecast, ruled_out, self._now(states))
        if placed is None:
            return None
        reason = sentences.fits(placed, known=bool(ruled_out)) if self._explains else ""
        decision = self._decision(
            inputs, forecast, placed.code, reason, ranked=placed.ranked, edit=placed.edit
        )
        is_known = forecast is not None and forecast.kind == "history"
        if is_known and (placed.by_ratio or placed.slower):
            return replace(decision, ground=ground_of_ratios(placed))
        return decision

    def _not_by_fit(
        self, request: Request, states: Mapping[str, CandidateState]
    ) -> tuple[str, str]:
        """Return the code and sentence of a job of an unknown program that stays where it is."""
        losses = losses_of(request, self._now(states))
        if not losses:
            return Code.NO_WORKLOAD, sentences.NO_WORKLOAD
        name, loss = losses[0]
        return loss.code, f"Left where you sent it: on {name} {loss.sentence}."

    def _now(self, states: Mapping[str, CandidateState]) -> Now:
        return Now(self.candidates, states, self.settings, self._now_s)

    def _reason(
        self,
        question: _Question,
        fitting: Sequence[Ranked],
        ruled_out: Sequence[Ranked],
        beside: Sequence[Ranked],
    ) -> str:
        request, _, forecast, staying = question
        best = fitting[0]
        placed = sentences.placed(
            best,
            fitting[1:],
            ruled_out,
            self.settings,
            self.objective,
            unit=forecast.unit,
            is_slice=self._by_name[best.candidate].slice_of is not None,
            beside=beside,
            than_staying=None if staying is None else staying.over(best),
            runs_only_here=runs_nowhere(request, self.ranking.of(request, forecast)),
        )
        return placed + sentences.short_of_memory(request.resources.memory_bytes_per_node, best)

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
        live = self._now_s if self.objective.live else ""
        return digest.of_text(
            self._site_digest,
            self._states_digest,
            "" if forecast is None else forecast.content_digest,
            digest.of_request(request),
            f"{stale} {live}",
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
            ground=ground_of(code, forecast, ranked[0] if ranked else None),
        )


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
