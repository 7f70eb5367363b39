"""Lasting constraints: whether a candidate suits a request, independent of the user and the time.

Each constraint is a function of one Case (a request on one candidate). It returns None where the
candidate passes, or an Exclusion with a stable code and a sentence for the user. The first
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
from berth.pilot.units import format_bytes, format_seconds, whole_number
from berth.policies.codes import Code
from berth.policies.settings import PolicySettings, UntypedGpus
from berth.policies.values import Candidate, QueueBounds, Request, Resources
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
class Case:
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


LastingConstraint = Callable[[Case], Exclusion | None]


def runs_there(case: Case) -> Exclusion | None:
    """Exclude a candidate whose device, architecture or CPU instructions the program cannot use."""
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


def own_queue(case: Case) -> Exclusion | None:
    """Exclude every other queue where the user named a partition or queue."""
    request = case.request
    if request.queue is None or request.wants_placement:
        return None
    if request.queue == case.candidate.queue:
        return None
    return Exclusion(Code.OTHER_QUEUE, f"you chose {request.queue}")


def own_features(case: Case) -> Exclusion | None:
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


def own_gres(case: Case) -> Exclusion | None:
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
    untyped = candidate.slice_of is not None and names_no_type(request.gres)
    if untyped and candidate.gres != "gpu" and case.settings.untyped_gpus is UntypedGpus.LEAVE:
        return Exclusion(
            Code.UNTYPED_GPU,
            f"{request.gres} names no type, and this site leaves it to you to name a slice",
        )
    return None


def steps_at_once(case: Case) -> Exclusion | None:
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


def one_slice(case: Case) -> Exclusion | None:
    """Exclude a candidate that would give several MIG slices, unless the user named the slice type.

    A CUDA program can use only one slice.
    """
    request, held = case.request, case.resources
    if case.candidate.slice_of is None or isinstance(held, str) or held.gpus <= 1:
        return None
    if request.gres is not None and not names_no_type(request.gres):
        return None
    return Exclusion(
        Code.ONE_SLICE, f"it takes {held.gpus} GPUs, and a program can use only one slice"
    )


def slice_wanted(case: Case) -> Exclusion | None:
    """Exclude a MIG slice for a program known from past jobs alone that never ran there, where
    nobody opted in to that.
    """
    candidate, forecast = case.candidate, case.forecast
    if candidate.slice_of is None or case.request.slices_from_use or forecast.kind != "history":
        return None
    if case.prediction is not None and case.prediction.basis is Basis.MEASURED:
        return None
    return Exclusion(
        Code.SLICE_NOT_WANTED,
        "your jobs of this kind ran on whole GPUs, and neither you (--comment=berth-slice:fit) nor "
        "the site asked for slices by what they used",
    )


def translates(case: Case) -> Exclusion | None:
    """Exclude a candidate that lacks the cores, GPUs or nodes for the request."""
    if isinstance(case.resources, str):
        return Exclusion(Code.TOO_FEW_RESOURCES, case.resources)
    return None


def predicted(case: Case) -> Exclusion | None:
    """Exclude a platform without a prediction; in strict mode also one whose prediction
    abstains.
    """
    prediction = case.prediction
    if prediction is None or case.runtime_s is None or case.memory is None:
        return Exclusion(
            Code.NO_PREDICTION, f"nothing is predicted for platform {case.candidate.platform}"
        )
    if prediction.abstained is not None and case.settings.strict:
        return Exclusion(Code.OUT_OF_RANGE, prediction.abstained)
    return None


def better_than_a_prior(case: Case) -> Exclusion | None:
    """Exclude, in strict mode, a prediction without any data for the platform (a *prior*)."""
    if case.settings.allow_prior or not case.settings.strict or case.prediction is None:
        return None
    if case.prediction.basis is not Basis.PRIOR:
        return None
    return Exclusion(Code.PRIOR_ONLY, "the prediction is a prior only: no data for this platform")


def narrow_enough(case: Case) -> Exclusion | None:
    """Exclude a prediction that is too uncertain to be compared with other places, in strict mode
    only.

    Only the part of the error that the other places do not share counts.
    """
    runtime, prediction = case.runtime_s, case.prediction
    if runtime is None or prediction is None or not case.settings.strict:
        return None
    half_width = prediction.ratio_log_width_of(runtime)
    if not case.settings.too_wide(half_width):
        return None
    if half_width < runtime.half_log_width:
        text = f"within a factor of {math.exp(half_width):.3g} of other places"
    else:
        text = f"{format_seconds(runtime.low)} to {format_seconds(runtime.high)}"
    return Exclusion(Code.INTERVAL_TOO_WIDE, f"the prediction is too uncertain: {text}")


def intervals_hold(case: Case) -> Exclusion | None:
    """Exclude, in strict mode, a platform whose predicted intervals failed to cover finished
    jobs.
    """
    sentence = case.forecast.doubted.get(case.candidate.platform)
    if sentence is None or not case.settings.strict:
        return None
    return Exclusion(Code.INTERVALS_FAIL, sentence)


def memory_fits(case: Case) -> Exclusion | None:
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


def _gpu_memory_lacks(case: Case, memory: MemoryUse, capacity: float, gpus: int) -> str | None:
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


def time_fits(case: Case) -> Exclusion | None:
    """Exclude a candidate whose time limit is below the upper predicted time and may not be
    raised.
    """
    request, candidate = case.request, case.candidate
    upper = upper_s(case.runtime_s, case.forecast, case.settings)
    if upper <= admitted_s(request, candidate, case.settings):
        return None
    longest = candidate.max_time_s
    if longest is not None and upper > longest:
        return Exclusion(
            Code.TIME_OVER_QUEUE,
            f"it may take {format_seconds(upper)}; {candidate.queue} allows "
            f"{format_seconds(longest)}",
        )
    asked = request.time_limit_s
    if longest is not None and asked is not None and asked > longest:
        return Exclusion(
            Code.ASKED_TIME_OVER_QUEUE,
            f"you asked for {format_seconds(asked)}; {candidate.queue} allows "
            f"{format_seconds(longest)}",
        )
    limit = present_limit_s(request, candidate)
    assert limit is not None  # noqa: S101 - all other reasons returned above
    return Exclusion(
        Code.TIME_OVER_LIMIT,
        f"it may take {format_seconds(upper)} and the time limit is {format_seconds(limit)}",
    )


def upper_s(runtime: Interval | None, forecast: Forecast, settings: PolicySettings) -> float:
    """Return the run time in seconds to compare with time limits: the upper bound x
    ``time_margin``.

    Minus infinity where no time is predicted. 0 for a forecast of one step or token, which gives no
    time for the whole job: then only the requested limit can be checked.
    """
    if runtime is None:
        return -math.inf
    return runtime.high * settings.time_margin if forecast.whole_job else 0.0


def admitted_s(request: Request, candidate: Candidate, settings: PolicySettings) -> float:
    """Return the longest upper predicted time in seconds that the limits allow; -1: no time is
    allowed.
    """
    longest = math.inf if candidate.max_time_s is None else candidate.max_time_s
    if request.time_limit_s is not None and request.time_limit_s > longest:
        return -1.0
    limit = None if settings.may_raise_time_limit else present_limit_s(request, candidate)
    return longest if limit is None else min(limit, longest)


def present_limit_s(request: Request, candidate: Candidate) -> float | None:
    """Return the job's time limit in seconds where no prediction raises it; None: no limit.

    A job that names none keeps the limit of its own queue where that is longer than the default.
    """
    if request.time_limit_s is not None:
        return request.time_limit_s
    longest_s = candidate.max_time_s
    default_s = candidate.default_time_s or longest_s
    own_s = None if request.own is None else request.own.limit_s
    if own_s is None or default_s is None:
        return default_s
    return max(default_s, own_s if longest_s is None else min(own_s, longest_s))


def limits_there_s(candidate: Candidate, bounds: QueueBounds) -> tuple[float, float]:
    """Return the time limit in seconds that a job gets by default at a place, and the longest;
    infinity: no limit."""
    both = candidate.max_time_s, bounds.max_time_s
    longest_s = min((most_s for most_s in both if most_s is not None), default=math.inf)
    return bounds.default_time_s or candidate.default_time_s or longest_s, longest_s


OF_KIND: tuple[LastingConstraint, ...] = (
    runs_there,
    own_queue,
    own_features,
    own_gres,
    steps_at_once,
    translates,
)
"""Lasting constraints that read neither the problem size nor memory nor the time limit."""
OF_PREDICTION: tuple[LastingConstraint, ...] = (
    one_slice,
    slice_wanted,
    predicted,
    better_than_a_prior,
    intervals_hold,
)
"""Lasting constraints on the prediction; checked after the memory that the job requests."""
OF_NUMBERS: tuple[LastingConstraint, ...] = (narrow_enough, memory_fits)
"""Lasting constraints on predicted time intervals and memory; ``time_fits`` is checked after
them."""


def first_of(constraints: tuple[LastingConstraint, ...], case: Case) -> Exclusion | None:
    """Return the first Exclusion that one of the constraints gives; None: the candidate passes."""
    for constraint in constraints:
        excluded = constraint(case)
        if excluded is not None:
            return excluded
    return None


def _or(names: tuple[str, ...]) -> str:
    return " or ".join(names)


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
