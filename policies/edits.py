"""Compute the changes that a job needs for the chosen candidate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from berth.policies.bounds import limits_there_s, present_limit_s
from berth.policies.constraints import names_no_type
from berth.policies.settings import PolicySettings
from berth.policies.values import UNBOUNDED, Candidate, CandidateState, Edit, Ranked, Request
from berth.predictor.core.forecast import Forecast

LONGEST_LIST = 1_000
"""Most characters in a job's list of queues; the submit filter accepts no longer list."""
RAISED_LIMIT_MARGIN = 1.2
"""Factor on the upper predicted time for a time limit that Berth raises."""
_MINUTE_S = 60.0


def edit_of(
    request: Request,
    candidate: Candidate,
    best: Ranked,
    forecast: Forecast,
    settings: PolicySettings,
    *,
    state: CandidateState | None,
) -> Edit:
    """Return only the changes that the job needs to run on the chosen candidate."""
    asked, held = request.resources, best.resources
    same = (
        (asked.tasks, asked.cpus_per_task, asked.gpus, asked.memory_bytes_per_node)
        == (held.tasks, held.cpus_per_task, held.gpus, held.memory_bytes_per_node)
    ) and asked.nodes in (0, held.nodes)
    gres, adds_type = None, False
    if candidate.is_gpu and candidate.gres is not None:
        gres = f"{candidate.gres}:{-(-held.gpus // held.nodes)}"
        is_typed_slice = candidate.slice_of is not None and ":" in candidate.gres
        names_none = request.gres is not None and names_no_type(request.gres)
        adds_type = is_typed_slice and names_none
        only_such = state is not None and state.gpu_types == (candidate.gres,)
        moves = request.queue != candidate.queue
        if adds_type and moves and only_such and forecast.kind == "history":
            # Slurm takes no type away from a job: without one, a job that fails in the slice can
            # run again as it was asked for.
            gres, adds_type = None, False
        elif names_none and moves and only_such and not is_typed_slice and held.gpus == asked.gpus:
            gres = None  # it gets no other type there, and can be listed beside other partitions
    return Edit(
        queue=None if request.queue == candidate.queue else candidate.queue,
        constraint=None if request.features else candidate.constraint,
        gres=None if gres == request.gres else gres,
        adds_type=adds_type,
        resources=None if same else held,
        time_limit_s=(
            raised_limit_s(request, candidate, best, settings) if forecast.whole_job else None
        ),
    )


def queue_list(names: Sequence[str]) -> str:
    """Return a job's list of queues: each once, as many as the submit filter accepts."""
    kept = list(dict.fromkeys(names))
    while len(",".join(kept)) > LONGEST_LIST:
        kept.pop()
    return ",".join(kept)


def with_kept_limit(
    edit: Edit,
    request: Request,
    places: Iterable[Candidate],
    states: Mapping[str, CandidateState],
) -> Edit:
    """Return the edit with the time limit of the job's own queue, where the job names none and
    would get less by default at one of the places."""
    if edit.queue is None or edit.time_limit_s is not None or request.time_limit_s is not None:
        return edit
    own_s = None if request.own is None else request.own.limit_s
    if own_s is None:
        return edit
    longest_s, by_default_s = own_s, math.inf
    for place in places:
        bounds = states[place.name].bounds if place.name in states else UNBOUNDED
        default_s, most_s = limits_there_s(place, bounds)
        longest_s, by_default_s = min(longest_s, most_s), min(by_default_s, default_s)
    return replace(edit, time_limit_s=longest_s) if by_default_s < longest_s else edit


def raised_limit_s(
    request: Request, candidate: Candidate, best: Ranked, settings: PolicySettings
) -> float | None:
    """Return the raised time limit in seconds that the upper predicted time needs.

    None: keep the present limit, also where the site lets Berth raise none.
    """
    limit = present_limit_s(request, candidate)
    if limit is None or best.runtime_s is None or not settings.may_raise_time_limit:
        return None
    upper = best.runtime_s.high * settings.time_margin
    if upper <= limit:
        return None
    raised = math.ceil(upper * RAISED_LIMIT_MARGIN / _MINUTE_S) * _MINUTE_S
    return raised if candidate.max_time_s is None else min(raised, candidate.max_time_s)
