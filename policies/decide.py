"""From a request, the candidates, their states and a forecast to a Decision with its reason.

``decide`` is a pure function. ``Decider`` is the same made once for a site: it keeps what only
depends on the site file, and remembers predictions already looked up, so that the daemon decides
over twenty candidates in some tens of microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from berth.policies import digest, sentences
from berth.policies.codes import Code
from berth.policies.constraints import CONSTRAINTS, Case, Exclusion, present_limit_s
from berth.policies.objectives import cost_of, score
from berth.policies.settings import PolicySettings
from berth.policies.translate import translate
from berth.policies.values import (
    Candidate,
    CandidateState,
    Decision,
    Edit,
    Ranked,
    Request,
    Resources,
)
from berth.predictor.forecast import Forecast
from berth.predictor.prediction import Interval, Prediction

RAISED_LIMIT_MARGIN = 1.2
"""A time limit that Berth raises gets this much above the upper predicted time."""
_LOOKUPS_KEPT = 65_536
_MINUTE_S = 60.0
_MIB = 2**20

_Looked = tuple[Prediction | None, Interval | None, Interval | None]


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
    """``decide`` for a fixed site. ``states`` passed to it must not be changed afterwards."""

    def __init__(self, candidates: Sequence[Candidate], settings: PolicySettings) -> None:
        self.candidates = tuple(sorted(candidates, key=lambda c: c.name))
        if len({c.name for c in self.candidates}) != len(self.candidates):
            raise ValueError("two candidates have the same name")
        self.settings = settings
        self._by_name = {c.name: c for c in self.candidates}
        self._site_digest = digest.of_site(self.candidates, settings)
        self._states: Mapping[str, CandidateState] | None = None
        self._states_digest = ""
        self._lookups: dict[tuple[str, str, str, int, float | None], _Looked] = {}

    def decide(
        self,
        request: Request,
        states: Mapping[str, CandidateState],
        forecast: Forecast | None,
        now_s: float,
    ) -> Decision:
        """As the function ``decide``."""
        inputs = self._digest(request, states, forecast, now_s)
        alone = _left_alone(request, forecast)
        if alone is not None or forecast is None:
            code, sentence = alone or (Code.NO_PROFILE, sentences.NO_PROFILE)
            return self._decision(inputs, forecast, code, sentence)
        fits: list[Ranked] = []
        ruled_out: list[Ranked] = []
        for candidate in self.candidates:
            row = self._rank(request, candidate, states.get(candidate.name), forecast, now_s)
            (ruled_out if row.score is None else fits).append(row)
        fits.sort(key=_order)
        ranked = (*fits, *ruled_out)
        if not fits:
            return self._decision(inputs, forecast, *_nothing_fits(ruled_out), ranked=ranked)
        best = fits[0]
        return self._decision(
            inputs,
            forecast,
            Code.PLACED,
            sentences.placed(best, fits[1:], ruled_out, self.settings.objective),
            ranked=ranked,
            edit=self._edit(request, self._by_name[best.candidate], best),
        )

    def _rank(
        self,
        request: Request,
        candidate: Candidate,
        state: CandidateState | None,
        forecast: Forecast,
        now_s: float,
    ) -> Ranked:
        resources = translate(request, candidate)
        prediction, runtime, memory = self._look_up(request, candidate, resources, forecast)
        case = Case(
            request,
            candidate,
            self.settings,
            forecast,
            resources,
            prediction,
            runtime,
            memory,
            state,
            now_s,
        )
        excluded: Exclusion | None = None
        for constraint in CONSTRAINTS:
            excluded = constraint(case)
            if excluded is not None:
                break
        held = request.resources if isinstance(resources, str) else resources
        cost = points = None
        if runtime is not None:
            cost = cost_of(candidate, held, runtime.mid)
            if excluded is None:
                points = score(self.settings, held, runtime, cost, state)
                if points is None:
                    excluded = Exclusion(Code.NO_PRICE, "the site file gives no price for it")
        return Ranked(
            candidate.name,
            candidate.platform,
            held,
            points,
            runtime,
            _speedup(prediction, runtime),
            memory,
            cost,
            None if prediction is None else prediction.basis,
            None if excluded is None else excluded.sentence,
            None if excluded is None else excluded.code.value,
            sentences.warning(prediction, runtime, state, self.settings, now_s),
        )

    def _look_up(
        self,
        request: Request,
        candidate: Candidate,
        resources: Resources | str,
        forecast: Forecast,
    ) -> _Looked:
        """Prediction at the grid point, time and memory: remembered by the forecast's digest."""
        held = request.resources if isinstance(resources, str) else resources
        units = max(1, held.gpus if candidate.is_gpu else held.cores)
        key = (
            forecast.profile_digest,
            forecast.bundle,
            candidate.platform,
            units,
            request.size,
        )
        found = self._lookups.get(key)
        if found is None:
            found = (
                forecast.prediction(candidate.platform, units),
                forecast.runtime_at(candidate.platform, units, request.size),
                forecast.memory_at(candidate.platform, request.size),
            )
            if len(self._lookups) >= _LOOKUPS_KEPT:
                self._lookups.clear()
            self._lookups[key] = found
        return found

    def _edit(self, request: Request, candidate: Candidate, best: Ranked) -> Edit:
        """What must change in the job, and nothing else."""
        asked, held = request.resources, best.resources
        if not candidate.translation.keep_memory and not candidate.is_gpu and best.memory_bytes:
            share = best.memory_bytes.high / held.nodes
            held = replace(held, memory_bytes_per_node=math.ceil(share / _MIB) * _MIB)
        same = (
            (asked.tasks, asked.cpus_per_task, asked.gpus, asked.memory_bytes_per_node)
            == (held.tasks, held.cpus_per_task, held.gpus, held.memory_bytes_per_node)
        ) and asked.nodes in (0, held.nodes)
        gres = None
        if candidate.is_gpu and candidate.gres is not None:
            gres = f"{candidate.gres}:{-(-held.gpus // held.nodes)}"
        return Edit(
            queue=None if request.queue == candidate.queue else candidate.queue,
            constraint=None if request.features else candidate.constraint,
            gres=None if gres == request.gres else gres,
            resources=None if same else held,
            time_limit_s=self._new_limit_s(request, candidate, best),
        )

    def _new_limit_s(self, request: Request, candidate: Candidate, best: Ranked) -> float | None:
        limit = present_limit_s(request, candidate)
        if limit is None or best.runtime_s is None:
            return None
        upper = best.runtime_s.high * self.settings.time_margin
        if upper <= limit:
            return None
        raised = math.ceil(upper * RAISED_LIMIT_MARGIN / _MINUTE_S) * _MINUTE_S
        return raised if candidate.max_time_s is None else min(raised, candidate.max_time_s)

    def _digest(
        self,
        request: Request,
        states: Mapping[str, CandidateState],
        forecast: Forecast | None,
        now_s: float,
    ) -> str:
        if states is not self._states:
            self._states, self._states_digest = states, digest.of_states(states)
        stale_before = now_s - self.settings.stale_after_s
        stale = "".join("1" if s.as_of_s < stale_before else "0" for s in states.values())
        predicted = "" if forecast is None else f"{forecast.profile_digest} {forecast.bundle}"
        return digest.of_text(
            self._site_digest, self._states_digest, stale, predicted, digest.of_request(request)
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
            policy=self.settings.objective.value,
            bundle="" if forecast is None else forecast.bundle,
            inputs_digest=inputs,
            code=str(code),
        )


def _left_alone(request: Request, forecast: Forecast | None) -> tuple[Code, str] | None:
    """Reasons that hold for every candidate."""
    if request.opted_out:
        return Code.OPTED_OUT, "You asked Berth to leave this job alone."
    if forecast is None:
        return Code.NO_PROFILE, sentences.NO_PROFILE
    if "nodelist" in request.pinned:
        return Code.PINNED_NODES, "You named the nodes yourself."
    if "reservation" in request.pinned:
        return Code.PINNED_RESERVATION, "You named a reservation."
    return None


def _nothing_fits(ruled_out: Sequence[Ranked]) -> tuple[str, str]:
    """The common reason of all exclusions, or that there are several."""
    codes = {row.code for row in ruled_out}
    if len(codes) == 1 and (only := codes.pop()) is not None:
        return only, sentences.nothing_fits(ruled_out, same=True)
    return Code.NO_CANDIDATE.value, sentences.nothing_fits(ruled_out, same=False)


def _order(row: Ranked) -> tuple[float, float, float, str]:
    """Ties in the score go to the shorter, then the cheaper, then by name."""
    time = math.inf if row.runtime_s is None else row.runtime_s.mid
    return (row.score or 0.0, time, math.inf if row.cost is None else row.cost, row.candidate)


def _speedup(prediction: Prediction | None, runtime: Interval | None) -> Interval | None:
    """Over the reference platform with the same size, at the very units of the request."""
    if prediction is None or runtime is None:
        return None
    point = prediction.runtime_s.mid
    factor = point / runtime.mid if runtime.mid > 0 else 1.0
    return prediction.speedup if factor == 1.0 else prediction.speedup.scaled(factor)
