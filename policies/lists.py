"""A job's list of places: all that fit, fast first; only evidence about its program changes it.

Slurm starts a job with a list of partitions in the first one that has room. So the list begins as
the site's order of its kinds (``Candidate.speed_rank``), without scarce ones; evidence changes it
kind by kind (``policies.list_order``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from berth.policies.codes import NOT_PREDICTED, OVER_TIME, Code
from berth.policies.constraints import Exclusion
from berth.policies.edits import edit_of, queue_list, with_kept_limit
from berth.policies.fit import SCARCE, Fit, as_it_is_written, fit_on
from berth.policies.list_order import PlaceList, SiteNow, by_evidence
from berth.policies.objectives.time_and_cost import expected_wait_s
from berth.policies.resources import memory_form
from berth.policies.values import Candidate, Edit, Ranked, Request
from berth.predictor.core.forecast import Forecast

_but_queue = attrgetter("constraint", "gres", "adds_type", "resources", "time_limit_s")


def list_as_written(
    request: Request, forecast: Forecast | None, predicted: Sequence[Ranked], now: SiteNow
) -> PlaceList | Mapping[str, Exclusion]:
    """Return the list of a job that changes nothing but its queue, or why it fits on no candidate,
    by name; empty: it fits, and stays where it is.

    It stays where it may start if the scheduler takes no lists, or if it starts sooner there.
    ``predicted``: the candidates as ranked by the forecast, on none of which it is placed.
    """
    may_stay = request.own is not None and request.own.may_start
    if may_stay and not now.settings.list_queues:
        return {}
    request = as_it_is_written(request)
    known = {ranked.candidate: ranked for ranked in predicted}
    heeds_time = not _over_time_everywhere(forecast, predicted)
    fits: list[Fit] = []
    unfit: dict[str, Exclusion] = {}
    for candidate in now.candidates:
        fit = fit_on(
            request, candidate, now.states.get(candidate.name), now.settings, now.now_s,
            forecast=forecast, known=known.get(candidate.name), heeds_time=heeds_time,
        )  # fmt: skip
        if isinstance(fit, Fit):
            fits.append(fit)
        else:
            unfit[candidate.name] = fit
    used, left_out = _to_use(fits, may_stay=may_stay)
    unfit |= left_out
    if not used:
        return unfit
    if may_stay and _starts_sooner_as_written(request, used, now):
        return {}
    return by_evidence(used, unfit, known, now)


def list_beside(
    request: Request,
    forecast: Forecast,
    ranked: Sequence[Ranked],
    edit: Edit,
    now: SiteNow,
    *,
    by_fit: bool,
    by_time: bool,
) -> PlaceList | None:
    """Return the list of a job whose edit is ``edit``, that of the first of ``ranked``; None: its
    edit is for that candidate alone.

    On it are the places that need the same changes of the job but for the queue. ``by_time``: the
    objective is the job's time, so those are listed that are compared with the best, those of the
    job's own queue that are slower, and with ``by_fit`` those of which no time is predicted well
    enough. Otherwise those are that are as good as the best, in their order.
    """
    best = ranked[0]
    if best.guess:
        return None
    by_name = {candidate.name: candidate for candidate in now.candidates}
    own = (request.own and request.own.places) or ()
    edited = _as_edited(request, edit)
    fits: list[Fit] = []
    for each in ranked:
        candidate = by_name[each.candidate]
        predicted = not _unpredicted(each)
        if each is best:
            may_join = True
        elif not by_time:
            may_join = alike(best, each, now.settings.alike_within)
        elif predicted:
            is_slow_there = each.code == Code.NO_BETTER and candidate.name in own
            may_join = each.excluded is None or is_slow_there
        else:
            may_join = by_fit and edited is not None
        if not may_join or candidate.slice_of is not None:
            continue
        if predicted and each is not best:
            state = now.states.get(candidate.name)
            its = edit_of(request, candidate, each, forecast, now.settings, state=state)
            if _but_queue(its) != _but_queue(edit):
                continue
        fit = _as_changed(edited, each, candidate, forecast, now)
        if isinstance(fit, Fit) and fit.last_resort is None:
            fits.append(fit)
    used, left_out = _to_use(fits, may_stay=True)
    if all(fit.candidate.name != best.candidate for fit in used):
        return None
    if not by_time:
        return PlaceList(tuple(used), left_out, {}, by_time=False)
    return by_evidence(used, left_out, {each.candidate: each for each in ranked}, now)


def without_scarce(
    fitting: Sequence[Ranked], candidates: Mapping[str, Candidate]
) -> tuple[list[Ranked], list[Ranked]]:
    """Return the candidates without scarce ones, and those, ruled out: they are for jobs that fit
    on no other nodes without GPUs."""
    ordinary = [r for r in fitting if not candidates[r.candidate].scarce]
    if all(candidates[ranked.candidate].is_gpu for ranked in ordinary):
        return list(fitting), []
    kept = [
        ranked._replace(score=None, excluded=SCARCE.sentence, code=SCARCE.code.value)
        for ranked in fitting
        if candidates[ranked.candidate].scarce
    ]
    return ordinary, kept


def _as_changed(
    edited: Request | None,
    ranked: Ranked,
    candidate: Candidate,
    forecast: Forecast,
    now: SiteNow,
) -> Fit | Exclusion:
    """Return how the job fits on a candidate after the changes; ``edited`` None: they are those
    that the candidate was ranked with."""
    state = now.states.get(candidate.name)
    if edited is not None:
        return fit_on(
            edited, candidate, state, now.settings, now.now_s, forecast=forecast, known=ranked
        )
    return Fit(
        candidate, ranked.resources, expected_wait_s(ranked.resources, ranked.length_s, state)
    )


def alike(best: Ranked, ranked: Ranked, most: float) -> bool:
    """Return whether the scores differ by at most the factor ``most`` and by less than the interval
    of their ratio."""
    if best.guess or ranked.guess or not best.score or not ranked.score:
        return False
    apart = ranked.score / best.score
    if apart > most:
        return False
    if apart <= 1.0:
        return True
    return math.log(apart) <= math.hypot(best.ratio_log_width, ranked.ratio_log_width)


def edit_for(places: PlaceList, edit: Edit, request: Request, now: SiteNow) -> Edit:
    """Return the edit with the queues of a list, and with the time limit that the job has where it
    was submitted."""
    queues = places.queues if now.settings.list_queues else places.queues[:1]
    edit = replace(edit, queue=queue_list(queues))
    return with_kept_limit(edit, request, [fit.candidate for fit in places.fits], now.states)


def ranked_by(
    places: PlaceList, request: Request, predicted: Sequence[Ranked], now: SiteNow
) -> tuple[Ranked, ...]:
    """Return all candidates: those of the list in its order, then the others with their reasons."""
    known = {ranked.candidate: ranked for ranked in predicted}
    listed = [_fitting(fit, known.get(fit.candidate.name)) for fit in places.fits]
    others = [
        _unfit(request, candidate, known.get(candidate.name), places.unfit[candidate.name])
        for candidate in now.candidates
        if candidate.name in places.unfit
    ]
    return (*listed, *others)


def ranked_beside(
    places: PlaceList, fitting: Sequence[Ranked], ruled_out: Sequence[Ranked]
) -> tuple[Ranked, ...]:
    """Return all candidates of a job with a predicted best place: the first of the list that has a
    score, then the others as ranked, those that are left out of the list last."""
    by_name = {fit.candidate.name: fit for fit in places.fits}
    with_score = {each.candidate for each in fitting}
    first = next(name for name in by_name if name in with_score)
    ranked = [each for each in fitting if each.candidate not in places.slower]
    ranked.sort(key=lambda each: each.candidate != first)
    left_out = [
        each._replace(score=None, excluded=why.sentence, code=why.code.value)
        for each in (*fitting, *ruled_out)
        if (why := places.slower.get(each.candidate)) is not None
    ]
    others = [
        _fitting(by_name[each.candidate], each) if each.candidate in by_name else each
        for each in ruled_out
        if each.candidate not in places.slower
    ]
    return (*ranked, *others, *left_out)


def _unpredicted(ranked: Ranked) -> bool:
    """Return whether the candidate cannot be compared with others: no time is predicted well
    enough, or its GPU memory was never measured."""
    if ranked.code == Code.MEMORY and ranked.memory is not None and ranked.resources.gpus:
        return ranked.memory.gpu_bytes is None
    return ranked.code in NOT_PREDICTED or ranked.guess


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


def _over_time_everywhere(forecast: Forecast | None, predicted: Sequence[Ranked]) -> bool:
    """Return whether a program known from past jobs may be over its time limit even where it is
    predicted fastest: then its time is too uncertain to prefer a place where nothing is
    predicted."""
    if forecast is None or forecast.kind != "history":
        return False
    timed = [(ranked.runtime_s.mid, ranked.code) for ranked in predicted if ranked.runtime_s]
    return not timed or min(timed)[1] in OVER_TIME


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
        return as_it_is_written(edited)
    shape = (held.tasks, held.cpus_per_task, held.gpus)
    if shape != (asked.tasks, asked.cpus_per_task, asked.gpus) or asked.nodes not in (
        0,
        held.nodes,
    ):
        return None
    edited = replace(
        edited,
        resources=replace(asked, memory_bytes_per_node=held.memory_bytes_per_node),
        needs=replace(request.needs, memory_form=memory_form(request)),
    )
    return as_it_is_written(edited)


def _fitting(fit: Fit, known: Ranked | None) -> Ranked:
    if known is not None:
        return known._replace(
            resources=fit.resources, warning=known.excluded or known.warning,
            excluded=None, code=None,
        )  # fmt: skip
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
