"""Lists of queues by fit: for jobs without a usable prediction, and beside a predicted best place.

A list holds no queue of a last resort where others fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from berth.policies.codes import OVER_TIME, Code
from berth.policies.constraints import Exclusion
from berth.policies.edits import queue_list, with_kept_limit
from berth.policies.fit import Fit, as_it_is_written, fit_on
from berth.policies.lists import slower_of, times_of
from berth.policies.objectives.time_and_cost import expected_wait_s
from berth.policies.resources import memory_form
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, CandidateState, Edit, Ranked, Request
from berth.predictor.core.forecast import Forecast

_NO_TIMES: Mapping[str, float] = MappingProxyType({})


class SiteNow(NamedTuple):
    """The site at the moment of a decision."""

    candidates: Sequence[Candidate]
    states: Mapping[str, CandidateState]
    settings: PolicySettings
    now_s: float


class FitList(NamedTuple):
    """The candidates where a job fits as written, in the order of its list of queues."""

    fits: tuple[Fit, ...]
    ranked: tuple[Ranked, ...]
    """All candidates: those of ``fits`` in their order, then the others with their reasons."""
    edit: Edit
    by_ratio: bool = False
    """Whether the places are in order of how fast they are predicted for this program."""
    slower: str = ""
    """A place that was left out because the job very likely ends later there, with the reason;
    empty: there is none."""

    @property
    def code(self) -> Code:
        """Return whether the job fits in several queues or in one."""
        queues = {fit.candidate.queue for fit in self.fits}
        return Code.FITS if len(queues) > 1 else Code.FITS_ONE


def fit_list(
    request: Request, forecast: Forecast | None, predicted: Sequence[Ranked], now: SiteNow
) -> FitList | Mapping[str, Exclusion]:
    """Return the queues where the job fits as written, or why it fits on no candidate, by name;
    empty: it fits, and stays where it is.

    It stays where it may start if the scheduler takes no lists, or if it starts sooner there.
    ``predicted``: the candidates as ranked by the forecast, none of which it may be placed on.
    """
    may_stay = request.own is not None and request.own.may_start
    if may_stay and not now.settings.list_queues:
        return {}
    request = as_it_is_written(request)
    known = {ranked.candidate: ranked for ranked in predicted}
    fits: list[Fit] = []
    unfit: dict[str, Exclusion] = {}
    heeds_time = not _over_time_everywhere(forecast, predicted)
    for candidate in now.candidates:
        fit = _fit_on(
            request, candidate, forecast, known.get(candidate.name), now, heeds_time=heeds_time
        )
        if isinstance(fit, Fit):
            fits.append(fit)
        else:
            unfit[candidate.name] = fit
    used, left_out = _to_use(fits, may_stay=may_stay)
    if not used:
        return unfit | left_out
    if may_stay and _starts_sooner_as_written(request, used, now):
        return {}
    slower = slower_of(used, known, now.states, now.settings)
    used = [fit for fit in used if fit.candidate.name not in slower]
    times = times_of(used, known, now.settings)
    used = in_order(used, times)
    queues = [fit.candidate.queue for fit in used]
    unfit |= left_out | slower
    ranked = [_fitting(fit, known.get(fit.candidate.name)) for fit in used] + [
        _unfit(request, candidate, known.get(candidate.name), unfit[candidate.name])
        for candidate in now.candidates
        if candidate.name in unfit
    ]
    return FitList(
        tuple(used),
        tuple(ranked),
        with_kept_limit(
            Edit(queue=queue_list(queues if now.settings.list_queues else queues[:1])),
            request,
            [fit.candidate for fit in used],
            now.states,
        ),
        by_ratio=bool(times),
        slower=next((f"on {name} {why.sentence}" for name, why in slower.items()), ""),
    )


def _starts_sooner_as_written(request: Request, used: Sequence[Fit], now: SiteNow) -> bool:
    """Return whether nodes of the job's own queue have room now, and none of the places has."""
    own = request.own
    if own is None or min(fit.wait_s for fit in used) <= 0:
        return False
    states = [now.states[name] for name in own.places or () if name in now.states]
    return any(
        expected_wait_s(request.resources, 1.0, replace(state, pending_jobs=own.pending_jobs)) == 0
        for state in states
    )


def unpredicted_beside(
    request: Request,
    forecast: Forecast,
    edit: Edit,
    best: Candidate,
    *,
    unpredicted: Sequence[Ranked],
    now: SiteNow,
) -> tuple[list[Fit], list[Fit]]:
    """Return the candidates that join the list of queues of a placed job, because the job as edited
    fits there and no time is predicted well enough to say that it runs longer.

    The first list precedes the best place: there the job starts no later, on faster hardware. The
    second follows it. ``unpredicted``: the candidates that are not compared with others.
    """
    edited = _as_edited(request, edit)
    if edited is None:
        return [], []
    edited = as_it_is_written(edited)
    by_name = {candidate.name: candidate for candidate in now.candidates}
    of_best = fit_on(edited, best, now.states.get(best.name), now.settings, now.now_s)
    if isinstance(of_best, Exclusion):
        return [], []
    fits = [
        fit
        for ranked in unpredicted
        if isinstance(fit := _fit_on(edited, by_name[ranked.candidate], forecast, ranked, now), Fit)
        and fit.last_resort is None
    ]
    used, _ = _to_use([of_best, *fits], may_stay=True)
    joining = [fit for fit in in_order(used) if fit.candidate.queue != best.queue]
    before = [fit for fit in joining if fit.order < of_best.order]
    return before, [fit for fit in joining if fit not in before]


def with_fitting(ruled_out: Sequence[Ranked], fits: Sequence[Fit]) -> list[Ranked]:
    """Return the ranked candidates, those of ``fits`` as fitting instead of ruled out."""
    by_name = {fit.candidate.name: fit for fit in fits}
    return [
        _fitting(by_name[ranked.candidate], ranked) if ranked.candidate in by_name else ranked
        for ranked in ruled_out
    ]


def in_order(fits: Sequence[Fit], times: Mapping[str, float] = _NO_TIMES) -> list[Fit]:
    """Return the candidates where the job starts first, and of those the fastest, first.

    ``times``: predicted seconds on every candidate, by name; empty: the speed of their hardware
    counts. Of several candidates of one queue the slowest counts, because the scheduler chooses
    among their nodes.
    """
    slowness = {
        fit.candidate.name: times.get(fit.candidate.name, fit.candidate.speed_rank) for fit in fits
    }
    by_queue: dict[str, tuple[float, float]] = {}
    for fit in fits:
        slow = slowness[fit.candidate.name]
        wait_s, slowest = by_queue.get(fit.candidate.queue, (fit.wait_s, slow))
        by_queue[fit.candidate.queue] = min(wait_s, fit.wait_s), max(slowest, slow)

    def key(fit: Fit) -> tuple[float, float, str, float, str]:
        place = fit.candidate
        return (*by_queue[place.queue], place.queue, slowness[place.name], place.name)

    return sorted(fits, key=key)


def _over_time_everywhere(forecast: Forecast | None, predicted: Sequence[Ranked]) -> bool:
    """Return whether a program known from past jobs may be over its time limit on all predicted
    places: then its time is too uncertain to prefer a place where nothing is predicted."""
    if forecast is None or forecast.kind != "history":
        return False
    timed = [ranked for ranked in predicted if ranked.runtime_s is not None]
    return all(ranked.code in OVER_TIME for ranked in timed)


def _fit_on(
    request: Request,
    candidate: Candidate,
    forecast: Forecast | None,
    known: Ranked | None,
    now: SiteNow,
    *,
    heeds_time: bool = True,
) -> Fit | Exclusion:
    fit = fit_on(
        request, candidate, now.states.get(candidate.name), now.settings, now.now_s,
        forecast=forecast, memory=None if known is None else known.memory,
    )  # fmt: skip
    if not heeds_time:
        return fit
    if isinstance(fit, Fit) and known is not None and known.code in OVER_TIME:
        return fit._replace(last_resort=Exclusion(Code(known.code), known.excluded or ""))
    return fit


def _to_use(fits: Sequence[Fit], *, may_stay: bool) -> tuple[list[Fit], dict[str, Exclusion]]:
    """Return the candidates for the list, and why the others are not on it, by name.

    ``may_stay``: no last resort is needed, because the job may start where it is.
    """
    left_out: dict[str, Exclusion] = {}
    first = 0 if may_stay else min((fit.tier for fit in fits), default=0)
    used = [fit for fit in fits if fit.tier == first]
    if any(not fit.sure for fit in used) and any(fit.sure for fit in used):
        used = [fit for fit in used if fit.sure]
    names = {fit.candidate.name for fit in used}
    for fit in fits:
        if fit.candidate.name not in names:
            unknown = Exclusion(Code.STALE_STATE, "its nodes are not known")
            left_out.setdefault(fit.candidate.name, fit.last_resort or unknown)
    return used, left_out


def _as_edited(request: Request, edit: Edit) -> Request | None:
    """Return the request as the edit leaves it; None: more than its queue, memory and time limit is
    changed, so that the list of queues is for the best place only."""
    if edit.queue is None or edit.constraint is not None or edit.gres is not None:
        return None
    edited = replace(request, time_limit_s=edit.time_limit_s or request.time_limit_s)
    held, asked = edit.resources, request.resources
    if held is None:
        return edited
    shape = (held.tasks, held.cpus_per_task, held.gpus)
    if shape != (asked.tasks, asked.cpus_per_task, asked.gpus) or asked.nodes not in (
        0,
        held.nodes,
    ):
        return None
    return replace(
        edited,
        resources=replace(asked, memory_bytes_per_node=held.memory_bytes_per_node),
        needs=replace(request.needs, memory_form=memory_form(request)),
    )


def _fitting(fit: Fit, known: Ranked | None) -> Ranked:
    if known is not None:
        return known._replace(
            resources=fit.resources, warning=known.excluded, excluded=None, code=None
        )
    return Ranked(
        fit.candidate.name, fit.candidate.platform, fit.resources, None, None, None, None, None,
        None, warning=None if fit.last_resort is None else fit.last_resort.sentence,
    )  # fmt: skip


def _unfit(
    request: Request, candidate: Candidate, known: Ranked | None, exclusion: Exclusion
) -> Ranked:
    if known is not None:
        return known._replace(excluded=exclusion.sentence, code=exclusion.code.value)
    return Ranked(
        candidate.name, candidate.platform, request.resources, None, None, None, None, None, None,
        excluded=exclusion.sentence, code=exclusion.code.value,
    )  # fmt: skip
