"""The candidates where a job fits as its user wrote it, whatever is predicted of it.

A job placed by fit changes nothing but its queue: its shape, its memory and the user's own choices
stay.

Some candidates are a last resort (``Fit.last_resort``): they are used only where the job fits
nowhere else, so that a job that some queue takes is not left to fail.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from berth.pilot.units import format_bytes, format_seconds
from berth.policies.bounds import present_limit_s
from berth.policies.codes import OVER_TIME, Code
from berth.policies.constraints import (
    Exclusion,
    Prospect,
    asks_for_gpus,
    asks_for_none,
    gres_matches,
    has_features,
    memory_fits,
    names_no_type,
    runs_there,
)
from berth.policies.objectives.time_and_cost import expected_wait_s
from berth.policies.present import Moment, excluded_now
from berth.policies.resources import translate, with_memory
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, CandidateState, Ranked, Request, Resources
from berth.predictor.core.forecast import Forecast

_MAY_PASS = frozenset({Code.DOWN, Code.TOO_FEW_RESOURCES, Code.NOT_CUT})
"""Reasons by nodes that do not work at present, in a queue that takes jobs."""
SCARCE = Exclusion(Code.SCARCE, "its nodes are kept for jobs that need much memory")
"""Why a job that fits elsewhere does not go to nodes with far more memory than most."""
_UNKNOWN_TIME_S = 3_600.0
"""Run time assumed for the expected wait of a job without a forecast and without a time limit."""


class Fit(NamedTuple):
    """A candidate on which a job fits as it is written."""

    candidate: Candidate
    resources: Resources
    wait_s: float
    """Expected seconds until the job starts there."""
    last_resort: Exclusion | None = None
    """Why the candidate is used only where the job fits nowhere else; None: no such reason."""
    sure: bool = True
    """False: the scheduler may refuse a list with this queue, because its nodes are not known."""

    @property
    def tier(self) -> int:
        """Return 0, or for a last resort 1, or 2 where it would take GPUs from other jobs."""
        if self.last_resort is None:
            return 0
        return 2 if self.last_resort.code in (Code.OTHER_GRES, Code.UNTYPED_GPU) else 1


def asks_for_fit(request: Request, settings: PolicySettings) -> bool:
    """Return whether Berth may choose a queue for the job by fit alone."""
    fit = settings.fit
    return fit.on and (request.wants_placement or (request.queue is None and fit.unnamed_partition))


def as_it_is_written(request: Request) -> Request:
    """Return the request for ``fit_on``: its shape stays, and a slice that it names counts as asked
    for, whether or not the GPUs were cut anew."""
    return replace(request, keeps_shape=True, follows_shape=False, scheduler_since_s=None)


def fit_on(
    request: Request,
    candidate: Candidate,
    state: CandidateState | None,
    settings: PolicySettings,
    now_s: float,
    *,
    forecast: Forecast | None = None,
    known: Ranked | None = None,
    heeds_time: bool = True,
) -> Fit | Exclusion:
    """Return how a job (of ``as_it_is_written``) fits on a candidate, or why it does not.

    ``forecast``: what the program needs to run; None: nothing is known of it. ``known``: what is
    predicted of it there. ``heeds_time``: a predicted time over the limit is a last resort.
    """
    if not candidate.by_fit:
        return Exclusion(Code.NOT_BY_FIT, "the site sends jobs here by predictions only")
    threads = 1 if state is None else state.bounds.cpus_per_core
    place, last_resort = _as_written(
        candidate, threads, wants_gpus=asks_for_gpus(request), untyped=_names_no_type(request)
    )
    held = _lacks_choice(request, place) or _held(request, place)
    if isinstance(held, Exclusion):
        return held
    excluded = _any_gpu(request, place, held, state) or _asks_for_more_time(request, place)
    if excluded is None and forecast is not None:
        memory = None if known is None else known.memory
        case = Prospect(request, place, settings, forecast, held, None, None, memory)
        excluded = runs_there(case) or _too_little_memory(case)
    if excluded is not None:
        return excluded
    limit_s = present_limit_s(request, place)
    place = replace(place, cores_per_node=candidate.cores_per_node)  # as limits of queues count
    moment = Moment(request, place, settings, held, state, now_s, limit_s)
    excluded, passing = _excluded_at_present(moment)
    if excluded is not None:
        return excluded
    over_time = None
    if heeds_time and known is not None and known.code in OVER_TIME:
        over_time = Exclusion(Code(known.code), known.excluded or "")
    return Fit(
        candidate,
        held,
        expected_wait_s(held, request.time_limit_s or _UNKNOWN_TIME_S, state),
        over_time or passing or last_resort,
        sure=state is not None and (state.node_sizes is not None or not state.refuses_lists),
    )


def _excluded_at_present(moment: Moment) -> tuple[Exclusion | None, Exclusion | None]:
    """Return why the job cannot go to the candidate, and why it cannot start there until nodes work
    again; None: no such reason."""
    excluded = excluded_now(moment)
    state = moment.state
    if excluded is None or state is None or not state.up or excluded.code not in _MAY_PASS:
        return excluded, None
    later = replace(state, usable_nodes=None, node_sizes=state.all_node_sizes)
    return excluded_now(replace(moment, state=later)), excluded


def _as_written(
    candidate: Candidate, threads: int, *, wants_gpus: bool, untyped: bool
) -> tuple[Candidate, Exclusion | None]:
    """Return the candidate as a job meets it that changes only its queue, and why it is a last
    resort (None: it is not).

    Such a job asks for no further features, counts the CPUs as the scheduler does (``threads`` of a
    core), and gets no GPUs unless it asks for them. ``untyped``: it names no type of GPU.
    """
    features = (candidate.constraint or "").split("&") if candidate.constraint else []
    place = replace(
        candidate,
        cores_per_node=candidate.cores_per_node * threads,
        constraint=None,
        features=tuple(dict.fromkeys((*candidate.features, *features))),
    )
    if not candidate.is_gpu:
        return place, SCARCE if candidate.scarce else None
    if not wants_gpus:
        host = replace(
            place, gres=None, gpus_per_node=0, slice_of=None, gpu_memory_bytes=None,
            targets=("cpu",),
        )  # fmt: skip
        return host, Exclusion(Code.OTHER_GRES, "it has GPUs, which the job does not use")
    if candidate.slice_of is not None and untyped:
        return place, Exclusion(
            Code.UNTYPED_GPU, "it has MIG slices, and the job names no type of GPU"
        )
    return place, None


def _lacks_choice(request: Request, place: Candidate) -> Exclusion | None:
    for words, asked in (("asked for", request.features), ("prefer", request.needs.prefer)):
        if asked and not has_features(place, asked):
            return Exclusion(Code.OTHER_FEATURES, f"you {words} nodes with {asked}")
    if request.gres is not None and not asks_for_none(request.gres):
        if not gres_matches(request.gres, place.gres):
            return Exclusion(Code.OTHER_GRES, f"you asked for {request.gres}")
    elif request.resources.gpus > 0 and not place.is_gpu:
        return Exclusion(Code.OTHER_GRES, "you asked for GPUs")
    return None


def _names_no_type(request: Request) -> bool:
    return request.gres is None or names_no_type(request.gres)


def _any_gpu(
    request: Request, place: Candidate, held: Resources, state: CandidateState | None
) -> Exclusion | None:
    """Exclude MIG slices for a job that names no type of GPU, unless it needs one GPU and
    every GPU in the queue is such a slice."""
    if place.slice_of is None or not _names_no_type(request):
        return None
    if held.gpus > 1:
        return Exclusion(
            Code.ONE_SLICE, f"it takes {held.gpus} GPUs, and a program can use only one slice"
        )
    types = () if state is None else state.gpu_types
    if types == (place.gres or "gpu",):
        return None
    return Exclusion(
        Code.UNTYPED_GPU, "the job names no type of GPU and might get a slice of any size here"
    )


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
    asked, needed = request.resources.memory_bytes_per_node, with_its_memory.memory_bytes_per_node
    if asked is None:
        return translated
    if needed is not None and needed > asked:
        return Exclusion(
            Code.LESS_MEMORY,
            f"as written the job gets less memory on its nodes; it would have to ask for "
            f"{format_bytes(needed)} a node",
        )
    return with_its_memory


def _too_little_memory(case: Prospect) -> Exclusion | None:
    """Exclude a candidate with less memory than the program is predicted to use; unknown memory
    excludes none, because what the job asks for applies, but MIG slices of a program that ran on
    larger GPUs."""
    memory, candidate = case.memory, case.candidate
    if memory is None or (memory.host_bytes is None and not candidate.is_gpu):
        return None
    places = (case.request.own and case.request.own.places) or ()
    is_open = memory.gpu_held_in_bytes is None or candidate.name in places
    if memory.gpu_bytes is None and (candidate.slice_of is None or is_open):
        case = replace(case, candidate=replace(candidate, gpu_memory_bytes=None))
    return memory_fits(case)


def _asks_for_more_time(request: Request, place: Candidate) -> Exclusion | None:
    limit_s, longest = request.time_limit_s, place.max_time_s
    if limit_s is None or longest is None or limit_s <= longest:
        return None
    return Exclusion(
        Code.ASKED_TIME_OVER_QUEUE,
        f"you asked for {format_seconds(limit_s)}; {place.queue} allows {format_seconds(longest)}",
    )
