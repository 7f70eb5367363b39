"""The candidates where a job fits as its user wrote it, whatever is predicted of it.

A job placed by fit changes nothing but its queue: its shape, its memory and the user's own choices
stay. The candidates are ordered by the expected start and, where that is the same, by the speed of
their hardware (``Candidate.speed_rank``).

Some candidates are a last resort (``Fit.last_resort``): they are used only where the job fits
nowhere else, so that a job that some queue takes is not left to fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from berth.pilot.units import format_bytes, format_seconds
from berth.policies.codes import Code
from berth.policies.constraints import (
    Case,
    Exclusion,
    asks_for_none,
    gres_matches,
    memory_fits,
    names_no_type,
    runs_there,
)
from berth.policies.memory import held_where_it_was, with_memory
from berth.policies.objectives.costs import expected_wait_s
from berth.policies.present import Moment, excluded_now
from berth.policies.settings import PolicySettings
from berth.policies.translate import translate
from berth.policies.values import Candidate, CandidateState, Request, Resources
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import MemoryUse

_UNKNOWN_TIME_S = 3_600.0
"""Run time assumed for the expected wait of a job without a forecast and without a time limit."""


LONGEST_LIST = 1_000
"""Most characters in a job's list of queues; the submit filter accepts no longer list."""


class Fit(NamedTuple):
    """A candidate on which a job fits as it is written."""

    candidate: Candidate
    resources: Resources
    wait_s: float
    """Expected seconds until the job starts there."""
    last_resort: Exclusion | None = None
    """Why the candidate is used only where the job fits nowhere else; None: no such reason."""

    @property
    def order(self) -> tuple[float, int]:
        """Return the sort key of the candidate: the earliest start first, then the fastest."""
        return self.wait_s, self.candidate.speed_rank


def asks_for_fit(request: Request, settings: PolicySettings) -> bool:
    """Return whether Berth may choose a queue for the job by fit alone."""
    fit = settings.fit
    return fit.on and (request.wants_placement or (request.queue is None and fit.unnamed_queue))


def fit_on(
    request: Request,
    candidate: Candidate,
    state: CandidateState | None,
    settings: PolicySettings,
    now_s: float,
    *,
    forecast: Forecast | None = None,
    memory: MemoryUse | None = None,
) -> Fit | Exclusion:
    """Return how the job as written fits on a candidate, or why it does not.

    ``forecast``: what the program needs to run; None: nothing is known of it. ``memory``: the
    memory that it is predicted to use there.
    """
    # The user named the slice: it counts as asked for, whether or not the GPUs were cut anew.
    request = replace(request, keeps_shape=True, follows_shape=False, scheduler_since_s=None)
    place, last_resort = _as_written(request, candidate, state)
    held = _lacks_choice(request, place) or _held(request, place)
    if isinstance(held, Exclusion):
        return held
    if forecast is not None:
        case = Case(request, place, settings, forecast, held, None, None, memory)
        excluded = runs_there(case) or _too_little_memory(case)
        if excluded is not None:
            return excluded
    limit_s = request.time_limit_s
    if limit_s is not None and place.max_time_s is not None and limit_s > place.max_time_s:
        return Exclusion(
            Code.ASKED_TIME_OVER_QUEUE,
            f"you asked for {format_seconds(limit_s)}; {place.queue} allows "
            f"{format_seconds(place.max_time_s)}",
        )
    present_limit = limit_s or place.default_time_s or place.max_time_s
    excluded = excluded_now(
        Moment(request, place, settings, held, state, now_s, present_limit)
    ) or _less_memory(request, state)
    if excluded is not None:
        return excluded
    wait_s = expected_wait_s(held, limit_s or _UNKNOWN_TIME_S, state)
    return Fit(candidate, held, wait_s, last_resort)


def to_use(fits: Sequence[Fit]) -> list[Fit]:
    """Return the candidates without those of a last resort, unless there are no others."""
    return [fit for fit in fits if fit.last_resort is None] or list(fits)


def in_order(fits: Sequence[Fit]) -> list[Fit]:
    """Return the candidates where the job starts first, and of those the fastest, first.

    Of several candidates of one queue the slowest counts, because the scheduler chooses among their
    nodes.
    """
    by_queue: dict[str, tuple[float, int]] = {}
    for fit in fits:
        wait_s, rank = by_queue.get(fit.candidate.queue, fit.order)
        by_queue[fit.candidate.queue] = min(wait_s, fit.wait_s), max(rank, fit.candidate.speed_rank)

    def key(fit: Fit) -> tuple[float, int, str, int, str]:
        place = fit.candidate
        return (*by_queue[place.queue], place.queue, place.speed_rank, place.name)

    return sorted(fits, key=key)


def queues_of(fits: Sequence[Fit], settings: PolicySettings) -> str:
    """Return the job's queues as the scheduler takes them: a list, or only the first where it
    takes no lists."""
    names = list(dict.fromkeys(fit.candidate.queue for fit in fits))
    if not settings.list_queues:
        return names[0]
    while len(",".join(names)) > LONGEST_LIST:
        names.pop()
    return ",".join(names)


def _as_written(
    request: Request, candidate: Candidate, state: CandidateState | None
) -> tuple[Candidate, Exclusion | None]:
    """Return the candidate as a job meets it that changes only its queue, and why it is a last
    resort (None: it is not).

    Such a job asks for no further features, counts the CPUs as the scheduler does, and gets no GPUs
    unless it asks for them.
    """
    threads = 1 if state is None else state.bounds.cpus_per_core
    features = (candidate.constraint or "").split("&") if candidate.constraint else []
    place = replace(
        candidate,
        cores_per_node=candidate.cores_per_node * threads,
        constraint=None,
        features=tuple(dict.fromkeys((*candidate.features, *features))),
    )
    if not candidate.is_gpu:
        return place, None
    if not _asks_for_gpus(request):
        host = replace(
            place, gres=None, gpus_per_node=0, slice_of=None, gpu_memory_bytes=None,
            targets=("cpu",),
        )  # fmt: skip
        return host, Exclusion(Code.OTHER_GRES, "it has GPUs, which the job does not use")
    untyped = request.gres is None or names_no_type(request.gres)
    if candidate.slice_of is not None and untyped:
        return place, Exclusion(
            Code.UNTYPED_GPU, "it has MIG slices, and the job names no type of GPU"
        )
    return place, None


def _asks_for_gpus(request: Request) -> bool:
    if request.gres is not None and not asks_for_none(request.gres):
        return True
    return request.resources.gpus > 0


def _lacks_choice(request: Request, place: Candidate) -> Exclusion | None:
    """Exclude a candidate that lacks the features or GPUs that the user chose."""
    for words, asked in (("asked for", request.features), ("prefer", request.needs.prefer)):
        if asked and not _has_features(place, asked):
            return Exclusion(Code.OTHER_FEATURES, f"you {words} nodes with {asked}")
    if request.gres is not None and not asks_for_none(request.gres):
        if not gres_matches(request.gres, place.gres):
            return Exclusion(Code.OTHER_GRES, f"you asked for {request.gres}")
    elif request.resources.gpus > 0 and not place.is_gpu:
        return Exclusion(Code.OTHER_GRES, "you asked for GPUs")
    return None


def _held(request: Request, place: Candidate) -> Resources | Exclusion:
    """Return the resources that the job holds there as written, or why there are too few.

    Without a memory request of the job the result has no memory: the queue's default applies.
    """
    translated = translate(request, place)
    if isinstance(translated, str):
        return Exclusion(Code.TOO_FEW_RESOURCES, translated)
    with_its_memory = with_memory(request, place, translated, None)
    if isinstance(with_its_memory, str):
        return Exclusion(Code.TOO_FEW_RESOURCES, with_its_memory)
    return translated if request.resources.memory_bytes_per_node is None else with_its_memory


def _has_features(place: Candidate, asked: str) -> bool:
    """Return whether all nodes have the features of a request such as ``a&b`` or ``a|b``."""
    return all(
        any(name.strip("[]") in place.features for name in alternatives.split("|"))
        for alternatives in asked.replace(",", "&").split("&")
    )


def _too_little_memory(case: Case) -> Exclusion | None:
    """Exclude a candidate with less memory than the program is predicted to use; unknown memory
    excludes none, because the memory that the job asks for applies."""
    memory = case.memory
    if memory is None or (memory.host_bytes is None and not case.candidate.is_gpu):
        return None
    return memory_fits(case)


def _less_memory(request: Request, state: CandidateState | None) -> Exclusion | None:
    """Exclude a queue whose default memory is below what the job gets where it was written."""
    if request.resources.memory_bytes_per_node is not None or state is None:
        return None
    if request.default_memory is None or state.default_memory is None:
        return None
    before = held_where_it_was(request)
    after = held_where_it_was(replace(request, default_memory=state.default_memory))
    if before is None or after is None or after >= before:
        return None
    return Exclusion(
        Code.LESS_MEMORY,
        f"jobs without a memory request get {format_bytes(after)} a node here and "
        f"{format_bytes(before)} where this one was submitted",
    )
