"""List further candidates beside the best, so that the job starts in whichever queue has room
first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from berth.policies.by_ratio import ends_later, place_of
from berth.policies.edits import edit_of
from berth.policies.objectives.costs import expected_wait_s
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
        its_edit = edit_of(request, candidate, ranked, forecast, settings)
        if _but_queue(its_edit) == _but_queue(edit):
            beside.append(ranked)
    return beside


def with_queues(edit: Edit, queues: Sequence[str]) -> Edit:
    """Return the edit with ``queues`` added after its own queue, without duplicates."""
    if edit.queue is None or not queues:
        return edit
    return replace(edit, queue=",".join(dict.fromkeys((edit.queue, *queues))))


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
    if not (_by_ratio(best) and _by_ratio(ranked)):
        return False
    place, best_place = (
        place_of(one, _wait_s(one, states), states.get(one.candidate)) for one in (ranked, best)
    )
    return not ends_later(place, best_place)


def _by_ratio(ranked: Ranked) -> bool:
    time = ranked.runtime_s
    return time is not None and ranked.ratio_log_width < time.half_log_width


def _wait_s(ranked: Ranked, states: Mapping[str, CandidateState]) -> float:
    if ranked.makespan is not None:
        return ranked.makespan.wait_s
    return expected_wait_s(ranked.resources, ranked.length_s, states.get(ranked.candidate))


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
