"""Which places share a job's list of queues: the job starts in whichever has room first.

Places are compared by how many times longer the job takes on one than on another. Such ratios are
often known well where the job's own time is not: how long the next job takes depends on its input,
on every place alike. A place is left out only if the job very likely ends later there: by the lower
end of the ratio's interval, by a cautious guess of the job's time, and with the waits that are
expected of both places. Where the place's own wait was not simulated, the job is assumed to start
there at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter

from berth.policies.codes import Code
from berth.policies.constraints import Exclusion
from berth.policies.edits import edit_of
from berth.policies.fit import Fit
from berth.policies.objectives.time_and_cost import expected_wait_s
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, CandidateState, Edit, Ranked, Request
from berth.predictor.core.forecast import Forecast

_but_queue = attrgetter("constraint", "gres", "adds_type", "resources", "time_limit_s")


def listed_beside(
    request: Request,
    edit: Edit,
    fitting: Sequence[Ranked],
    *,
    candidates: Mapping[str, Candidate],
    states: Mapping[str, CandidateState],
    forecast: Forecast,
    settings: PolicySettings,
    by_time: bool = False,
) -> list[Ranked]:
    """Return the candidates of ``fitting`` (best first) that may be listed beside the best.

    ``by_time``: the objective is the job's time; then a candidate that is compared with the best by
    a ratio is listed too, unless the job surely ends later there. Their changes to the job equal
    ``edit``, the best one's, except for the queue. MIG slices are never listed. The list is empty
    where the site or the scheduler does not use lists.
    """
    if not settings.lists or edit.queue is None:
        return []
    best = fitting[0]
    beside = []
    for ranked in fitting[1:]:
        candidate = candidates[ranked.candidate]
        if candidate.slice_of is not None or request.queue == candidate.queue:
            continue
        may_help = by_time and _may_end_first(best, ranked, settings, states)
        if not (may_help or _cannot_be_told_apart(best, ranked, settings.alike_within)):
            continue
        its_edit = edit_of(request, candidate, ranked, forecast, settings, state=None)
        if _but_queue(its_edit) == _but_queue(edit):
            beside.append(ranked)
    return beside


def _may_end_first(
    best: Ranked,
    ranked: Ranked,
    settings: PolicySettings,
    states: Mapping[str, CandidateState],
) -> bool:
    """Return whether the job may end first on ``ranked``, by a ratio that is known better than the
    job's time."""
    if best.guess or ranked.guess or best.makespan is not None or settings.alike_within <= 1:
        return False
    waits = []
    for each in (ranked, best):
        time, state = each.runtime_s, states.get(each.candidate)
        if time is None or each.ratio_log_width >= time.half_log_width:
            return False
        if each.makespan is not None:
            waits.append(each.makespan.wait_s)
        else:
            waits.append(expected_wait_s(each.resources, each.length_s, state))
    wait_s, best_wait_s = waits
    return not ends_later(ranked, _sure(wait_s, states.get(ranked.candidate)), best, best_wait_s)


def _cannot_be_told_apart(best: Ranked, ranked: Ranked, most: float) -> bool:
    """Return whether the scores differ by at most ``most`` and by less than the interval of their
    ratio."""
    if best.guess or ranked.guess or not best.score or not ranked.score:
        return False
    apart = ranked.score / best.score
    if apart > most:
        return False
    if apart <= 1.0:
        return True
    return math.log(apart) <= math.hypot(best.ratio_log_width, ranked.ratio_log_width)


def ends_later(ranked: Ranked, wait_s: float, best: Ranked, best_wait_s: float) -> bool:
    """Return whether a job very likely ends later on ``ranked`` than on ``best``.

    ``wait_s``: how long it surely waits there; ``best_wait_s``: its expected wait on the other.
    """
    time, best_time = ranked.runtime_s, best.runtime_s
    half_width = math.hypot(ranked.ratio_log_width, best.ratio_log_width)
    if time is None or best_time is None or math.isinf(half_width):
        return False
    least_ratio = time.mid / best_time.mid * math.exp(-half_width)
    short_s = math.sqrt(best_time.low * best_time.mid)
    return wait_s + short_s * (least_ratio - 1.0) > best_wait_s


def slower_of(
    fits: Sequence[Fit],
    known: Mapping[str, Ranked],
    states: Mapping[str, CandidateState],
    settings: PolicySettings,
) -> dict[str, Exclusion]:
    """Return the candidates where the job very likely ends later than on the best, by name, with
    the reason.

    ``known``: what is predicted of the candidates, by name.
    """
    compared = [
        (ranked, time_s, fit.wait_s)
        for fit in fits
        if (ranked := known.get(fit.candidate.name)) is not None
        and (time_s := _known_s(ranked, settings)) is not None
        and not ranked.guess
    ]
    if not compared:
        return {}
    best, best_s, best_wait_s = min(compared, key=lambda place: place[1] + place[2])
    return {
        ranked.candidate: Exclusion(
            Code.SLOWER, f"it takes {time_s / best_s:.2g} times as long as on {best.candidate}"
        )
        for ranked, time_s, wait_s in compared
        if ranked is not best
        and ends_later(ranked, _sure(wait_s, states.get(ranked.candidate)), best, best_wait_s)
    }


def times_of(
    fits: Sequence[Fit], known: Mapping[str, Ranked], settings: PolicySettings
) -> Mapping[str, float]:
    """Return the predicted seconds on each of the candidates, by name; empty where some cannot be
    compared with the others."""
    names = [fit.candidate.name for fit in fits if fit.candidate.name in known]
    times = {name: _known_s(known[name], settings) for name in names}
    known_s = {name: time_s for name, time_s in times.items() if time_s is not None}
    return known_s if len(known_s) == len(fits) else {}


def _known_s(ranked: Ranked, settings: PolicySettings) -> float | None:
    """Return the predicted seconds by which the candidate can be compared with others; None: it
    cannot."""
    if ranked.runtime_s is None or settings.too_wide(ranked.ratio_log_width):
        return None
    return ranked.runtime_s.mid


def _sure(wait_s: float, state: CandidateState | None) -> float:
    """Return an expected wait where it comes from a simulation of the queue, else 0."""
    return wait_s if state is not None and state.waits is not None else 0.0
