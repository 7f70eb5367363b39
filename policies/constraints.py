"""Lasting constraints: whether a candidate suits a request, independent of the user and the time.

Each constraint is a function of one Prospect (a request on one candidate). It returns None where
the candidate passes, or an Exclusion with a stable code and a sentence for the user. The first
Exclusion becomes the reason, so constraints that can never change come before those that depend on
predicted numbers. They use only the workload, the request and the site file, so that their ranking
can be cached; ``policies.present`` then checks the user's rights and the present state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from berth.pilot.instruction_sets import Has, described, has
from berth.pilot.units import (
    MOST_SHOWN_FACTOR,
    format_bytes,
    format_seconds,
    whole_number,
)
from berth.policies.bounds import present_limit_s
from berth.policies.codes import Code
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, Request, Resources
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis, Interval, MemoryUse, Prediction

MEASURE_GPU_MEMORY = (
    "pilot it on a GPU, or have Slurm account it: AccountingStorageTRES=gres/gpumem"
)
"""Hint for the user: how a site can measure GPU memory."""


class Exclusion(NamedTuple):
    """The reason why a job cannot go to a candidate: a code and a sentence."""

    code: Code
    sentence: str


@dataclass(slots=True)
class Prospect:
    """One request on one candidate: all that a lasting constraint may read.

    Constraints must not read from the request who submitted it: the result is shared by all users.
    """

    request: Request
    candidate: Candidate
    settings: PolicySettings
    forecast: Forecast
    resources: Resources | str
    """The resources in the candidate's terms, or the sentence that says why the request cannot be
    translated."""
    prediction: Prediction | None
    runtime_s: Interval | None
    memory: MemoryUse | None


LastingConstraint = Callable[[Prospect], Exclusion | None]


def runs_there(case: Prospect) -> Exclusion | None:
    """Exclude a candidate whose device, architecture or CPU instructions the program cannot use, or
    where its jobs fail."""
    forecast, candidate = case.forecast, case.candidate
    if not set(forecast.targets).intersection(candidate.targets):
        return Exclusion(
            Code.CANNOT_RUN,
            f"the program runs on {_or(forecast.targets)}, this place on {_or(candidate.targets)}",
        )
    if forecast.architecture != candidate.architecture:
        return Exclusion(
            Code.WRONG_ARCHITECTURE,
            f"the program is built for {forecast.architecture}, this place is "
            f"{candidate.architecture}",
        )
    if (failed := forecast.fails_on.get(candidate.platform)) is not None:
        return Exclusion(Code.FAILS_THERE, failed)
    if candidate.platform in forecast.ran_on:
        return None
    for name in forecast.instruction_sets:
        if has(candidate.instruction_sets, name) is Has.NO:
            return Exclusion(
                Code.INSTRUCTION_SET, f"the program needs {name}, which this place does not have"
            )
    return None


def not_known_to_run(candidate: Candidate, forecast: Forecast) -> str | None:
    """Return a warning if the program needs CPU instructions that the candidate may lack; None:
    it has all.
    """
    if candidate.platform in forecast.ran_on:
        return None
    for name in forecast.instruction_sets:
        if has(candidate.instruction_sets, name) is Has.UNKNOWN:
            return f"it needs {described(name)}, which this place is not known to have"
    return None


def own_queue(case: Prospect) -> Exclusion | None:
    """Exclude every other queue where the user named a partition or queue."""
    request = case.request
    if request.queue is None or request.wants_placement:
        return None
    if request.queue == case.candidate.queue:
        return None
    return Exclusion(Code.OTHER_QUEUE, f"you chose {request.queue}")


def own_features(case: Prospect) -> Exclusion | None:
    """Exclude candidates whose nodes lack the features that the user requested or prefers."""
    asked = case.request.features
    prefer = case.request.needs.prefer
    if prefer and not _has(case.candidate, prefer):  # newer Slurms may never start such a job
        return Exclusion(
            Code.OTHER_FEATURES,
            f"you prefer nodes with {prefer}, which this place is not known to have",
        )
    if not asked:
        if "constraint" in case.request.pinned and case.candidate.constraint is not None:
            return Exclusion(Code.OTHER_FEATURES, "you chose the node features yourself")
        return None
    candidate = case.candidate
    if asked == candidate.constraint or _has(candidate, asked):
        return None
    text = f"you asked for nodes with {asked}"
    if has_features(candidate, asked):
        text += f", which stays as it is: this place would need {candidate.constraint} beside it"
    return Exclusion(Code.OTHER_FEATURES, text)


def _has(candidate: Candidate, asked: str) -> bool:
    """Return whether all nodes of the candidate have these features and it adds no constraint
    itself.
    """
    return candidate.constraint is None and has_features(candidate, asked)


def has_features(candidate: Candidate, asked: str) -> bool:
    """Return whether all nodes have the features of a request such as ``a&b`` or ``a|b``."""
    return all(
        any(name.strip("[]") in candidate.features for name in alternatives.split("|"))
        for alternatives in asked.replace(",", "&").split("&")
    )


def own_gres(case: Prospect) -> Exclusion | None:
    """Exclude candidates that do not offer the GPUs, or the GPU type, that the user requested."""
    request, candidate = case.request, case.candidate
    if request.gres is None or asks_for_none(request.gres):
        if request.resources.gpus > 0 and not candidate.is_gpu:
            return Exclusion(Code.OTHER_GRES, f"you asked for {_gpus(request.resources.gpus)}")
        chosen = "gres" in request.pinned or request.gres is not None
        if chosen and request.resources.gpus == 0 and candidate.is_gpu:
            return Exclusion(Code.OTHER_GRES, "you chose the resources (gres) yourself")
        return None
    if not candidate.is_gpu or not gres_matches(request.gres, candidate.gres):
        return Exclusion(Code.OTHER_GRES, f"you asked for {request.gres}")
    return None


def steps_at_once(case: Prospect) -> Exclusion | None:
    """Exclude GPU candidates for a script that runs several steps at once and requests no GPUs.

    Each step would take all GPUs of the job, so the steps would wait for each other.
    """
    adds_gpus = case.candidate.is_gpu and case.request.resources.gpus == 0
    if not (adds_gpus and case.request.packs_steps):
        return None
    return Exclusion(
        Code.PINNED_SHAPE, "your script starts several steps at once, which would share one GPU"
    )


def gres_matches(asked: str, offered: str | None) -> bool:
    """Return whether the offered GPUs are of the requested type.

    ``gpu``, ``gpu:2`` and ``gres/gpu=2`` match any GPU; ``gpu:h200[:2]`` only that type.
    """
    if offered is None or "," in asked:
        return False
    parts = gres_type(asked).split(":")
    return offered.split(":")[: len(parts)] == parts


def gres_type(asked: str) -> str:
    """Return the type of the requested GPUs without their count: ``gpu`` or ``gpu:h200``."""
    parts = asked.removeprefix("gres/").removeprefix("gres:").replace("=", ":").split(":")
    return ":".join(parts[:-1] if parts[-1].isdigit() else parts)


def asks_for_none(asked: str) -> bool:
    """Return whether the request explicitly excludes GPUs: ``none``, ``gpu:0`` or
    ``gres/gpu:h200=0``.
    """
    parts = asked.removeprefix("gres/").removeprefix("gres:").replace("=", ":").split(":")
    return parts == ["none"] or (len(parts) > 1 and whole_number(parts[-1]) == 0)


def asks_for_gpus(request: Request) -> bool:
    """Return whether the job asks for GPUs, of any type."""
    gres = request.gres
    return request.resources.gpus > 0 or (gres is not None and not asks_for_none(gres))


def names_no_type(asked: str) -> bool:
    """Return whether the request is only for GPUs of any type: ``gpu``, ``gpu:2`` or
    ``gres/gpu=2``.
    """
    name, _, count = (
        asked.removeprefix("gres/").removeprefix("gres:").replace("=", ":").partition(":")
    )
    return name == "gpu" and (not count or count.isdigit())


def slices_suit(case: Prospect) -> Exclusion | None:
    """Exclude MIG slices of which the job would get several, because a program can use only one,
    and slices for a program known from past jobs alone that never ran there, where nobody opted in
    to that. A slice type that the user named stays.
    """
    request, held, point = case.request, case.resources, case.prediction
    if case.candidate.slice_of is None:
        return None
    untyped = request.gres is None or names_no_type(request.gres)
    if untyped and not isinstance(held, str) and held.gpus > 1:
        return Exclusion(
            Code.ONE_SLICE, f"it takes {held.gpus} GPUs, and a program can use only one slice"
        )
    ran_there = point is not None and point.basis is Basis.MEASURED
    if request.slices_from_use or case.forecast.kind != "history" or ran_there:
        return None
    return Exclusion(
        Code.SLICE_NOT_WANTED,
        "your jobs of this kind ran on whole GPUs, and neither you (--comment=berth-slice:fit) nor "
        "the site asked for slices by what they used",
    )


def translates(case: Prospect) -> Exclusion | None:
    """Exclude a candidate that lacks the cores, GPUs or nodes for the request, or that would give
    the job fewer cores than it asked for and the program is known to run with.
    """
    if isinstance(case.resources, str):
        return Exclusion(Code.TOO_FEW_RESOURCES, case.resources)
    held, least = case.resources.cores, case.forecast.least_cores
    if held < min(case.request.resources.cores, least) and not case.candidate.is_gpu:
        return Exclusion(
            Code.TOO_FEW_RESOURCES,
            f"the program ran with {least} threads, and nothing says that it runs with {held} "
            f"core{'s' * (held > 1)}",
        )
    return None


def predicted_well(case: Prospect) -> Exclusion | None:
    """Exclude a platform without a prediction; in strict mode also one with a prediction that
    abstains, has no data for the platform (a *prior*), has intervals that failed to cover finished
    jobs, or is too uncertain to be compared with other places.

    Of the error only the part that the other places do not share counts.
    """
    point, runtime, settings = case.prediction, case.runtime_s, case.settings
    platform = case.candidate.platform
    if point is None or runtime is None or case.memory is None:
        return Exclusion(Code.NO_PREDICTION, f"nothing is predicted for platform {platform}")
    if not settings.strict:
        return None
    doubt, half_width = case.forecast.doubted.get(platform), point.ratio_log_width_of(runtime)
    why = None
    if point.abstained is not None:
        why = Code.OUT_OF_RANGE, point.abstained
    elif point.basis is Basis.PRIOR and not settings.allow_prior:
        why = Code.PRIOR_ONLY, "the prediction is a prior only: no data for this platform"
    elif doubt is not None:
        why = Code.INTERVALS_FAIL, doubt
    elif settings.too_wide(half_width):
        text = f"within a factor of {math.exp(half_width):.3g} of other places"
        if half_width >= runtime.half_log_width:
            text = f"{format_seconds(runtime.low)} to {format_seconds(runtime.high)}"
        if half_width > math.log(MOST_SHOWN_FACTOR):
            text = f"not known to within a factor of {MOST_SHOWN_FACTOR:.0f}"
        why = Code.INTERVAL_TOO_WIDE, f"the prediction is too uncertain: {text}"
    return None if why is None else Exclusion(*why)


def memory_fits(case: Prospect) -> Exclusion | None:
    """Exclude a candidate whose host or GPU memory is below the upper predicted memory.

    Host memory is compared with the nodes, GPU memory with the GPUs or slices; neither replaces the
    other. Unknown host memory rules out a candidate without GPUs only where the scheduler does not
    allocate memory; elsewhere the memory that the job requests, or its queue's default, applies.
    """
    memory, candidate, resources = case.memory, case.candidate, case.resources
    if memory is None or isinstance(resources, str):
        return None
    sentence = None
    if candidate.is_gpu and candidate.gpu_memory_bytes is not None:
        sentence = _gpu_memory_lacks(case, memory, candidate.gpu_memory_bytes, resources.gpus)
    if sentence is None and candidate.memory_bytes_per_node is not None:
        capacity, nodes = candidate.memory_bytes_per_node, max(1, resources.nodes)
        if memory.host_bytes is not None:
            sentence = _lacks(memory.host_bytes, "host memory", capacity, nodes)
        elif not candidate.is_gpu and case.request.default_memory is None:
            sentence = "its host memory is not known: no run measured it"
    return None if sentence is None else Exclusion(Code.MEMORY, sentence)


def _lacks(need: Interval, kind: str, capacity: float, holders: int) -> str | None:
    if need.high <= capacity * holders:
        return None
    return (
        f"it may need {format_bytes(need.high / holders)} of {kind}; there is "
        f"{format_bytes(capacity)}"
    )


def _gpu_memory_lacks(case: Prospect, memory: MemoryUse, capacity: float, gpus: int) -> str | None:
    measured_on = max(case.forecast.gpus, 0 if case.prediction is None else case.prediction.gpus)
    if gpus < measured_on:  # in the measured run each GPU held only a part
        memory = replace(memory, gpu_held_in_bytes=None)
    gpus = max(1, min(gpus, measured_on))
    if memory.fits_gpus(capacity, gpus):
        return None
    if memory.gpu_bytes is not None:
        return _lacks(memory.gpu_bytes, "GPU memory", capacity, gpus)
    ran_in = ""
    if memory.gpu_held_in_bytes is not None:
        ran_in = (
            f"; it ran on GPUs of {format_bytes(memory.gpu_held_in_bytes)}, and there is "
            f"{format_bytes(capacity)}"
        )
    return f"its GPU memory was never measured{ran_in} ({MEASURE_GPU_MEMORY})"


def time_fits(case: Prospect) -> Exclusion | None:
    """Exclude a candidate whose time limit is below the upper predicted time x ``time_margin`` and
    may not be raised.

    A forecast of one step or token gives no time for the whole job: then only the requested limit
    is checked.
    """
    request, candidate, settings = case.request, case.candidate, case.settings
    asked, longest = request.time_limit_s, candidate.max_time_s
    if case.runtime_s is None:
        return None
    upper = case.runtime_s.high * settings.time_margin if case.forecast.whole_job else 0.0
    if longest is not None and upper > longest:
        return Exclusion(
            Code.TIME_OVER_QUEUE,
            f"it may take {format_seconds(upper)}; {candidate.queue} allows "
            f"{format_seconds(longest)}",
        )
    if longest is not None and asked is not None and asked > longest:
        return Exclusion(
            Code.ASKED_TIME_OVER_QUEUE,
            f"you asked for {format_seconds(asked)}; {candidate.queue} allows "
            f"{format_seconds(longest)}",
        )
    limit = None if settings.may_raise_time_limit else present_limit_s(request, candidate)
    if limit is None or upper <= limit:
        return None
    return Exclusion(
        Code.TIME_OVER_LIMIT,
        f"it may take {format_seconds(upper)} and the time limit is {format_seconds(limit)}",
    )


LASTING: tuple[LastingConstraint, ...] = (
    runs_there,
    own_queue,
    own_features,
    own_gres,
    steps_at_once,
    translates,
    slices_suit,
    predicted_well,
    memory_fits,
    time_fits,
)
"""The lasting constraints in checking order: the first exclusion gives the reason."""


def excluded_for_good(case: Prospect) -> Exclusion | None:
    """Return the first Exclusion that a lasting constraint gives; None: the candidate passes."""
    return next((excluded for rule in LASTING if (excluded := rule(case)) is not None), None)


def _or(names: tuple[str, ...]) -> str:
    return " or ".join(names)


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
