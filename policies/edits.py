"""Compute the changes that a job needs for the chosen candidate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from berth.policies.constraints import limits_there_s, names_no_type, present_limit_s
from berth.policies.settings import PolicySettings, UntypedGpus
from berth.policies.values import UNBOUNDED, Candidate, CandidateState, Edit, Ranked, Request
from berth.predictor.core.forecast import Forecast

RAISED_LIMIT_MARGIN = 1.2
"""Factor on the upper predicted time for a time limit that Berth raises."""
_MINUTE_S = 60.0


def edit_of(
    request: Request,
    candidate: Candidate,
    best: Ranked,
    forecast: Forecast,
    settings: PolicySettings,
) -> Edit:
    """Return only the changes that the job needs to run on the chosen candidate."""
    asked, held = request.resources, best.resources
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
        adds_type=gres is not None and _adds_type(request, candidate, settings),
        resources=None if same else held,
        time_limit_s=(
            raised_limit_s(request, candidate, best, settings) if forecast.whole_job else None
        ),
    )


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


def without_needless_type(
    edit: Edit, candidate: Candidate, state: CandidateState | None, forecast: Forecast
) -> Edit:
    """Return the edit of a job known from past jobs alone without the slice's type that it adds,
    where all GPUs of the queue are such slices.

    Slurm takes no type away from a job: without one, a job that fails in the slice can run again as
    it was asked for.
    """
    if not edit.adds_type or state is None or forecast.kind != "history":
        return edit
    if edit.queue is None or state.gpu_types != (candidate.gres,):
        return edit
    return replace(edit, gres=None, adds_type=False)


def _adds_type(request: Request, candidate: Candidate, settings: PolicySettings) -> bool:
    return (
        candidate.slice_of is not None
        and ":" in (candidate.gres or "")
        and request.gres is not None
        and names_no_type(request.gres)
        and settings.untyped_gpus is UntypedGpus.TYPE
    )


def raised_limit_s(
    request: Request, candidate: Candidate, best: Ranked, settings: PolicySettings
) -> float | None:
    """Return the raised time limit in seconds that the upper predicted time needs.

    None: keep the present limit.
    """
    limit = present_limit_s(request, candidate)
    if limit is None or best.runtime_s is None:
        return None
    upper = best.runtime_s.high * settings.time_margin
    if upper <= limit:
        return None
    raised = math.ceil(upper * RAISED_LIMIT_MARGIN / _MINUTE_S) * _MINUTE_S
    return raised if candidate.max_time_s is None else min(raised, candidate.max_time_s)
