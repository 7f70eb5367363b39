"""Lasting constraints: whether a candidate suits what was asked, whoever asks and whenever.

Each is a small function that looks at one Case (a request on one candidate) and answers None, or
an Exclusion with a stable code and a sentence for the user. The first one that excludes gives the
reason, so the order is from what can never change to what the numbers say. They look at the
workload, the request and the site file only, so that the ranking made of them can be remembered;
who asks and the present state come after them (``policies.present``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from berth.pilot.instruction_sets import Has, has
from berth.pilot.units import format_bytes, format_seconds, whole_number
from berth.policies.codes import Code
from berth.policies.settings import PolicySettings, UntypedGpus
from berth.policies.values import Candidate, Request, Resources
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis, Interval, MemoryUse, Prediction

MEASURE_GPU_MEMORY = (
    "pilot it on a GPU, or have Slurm account it: AccountingStorageTRES=gres/gpumem"
)
"""How a site gets to know GPU memory."""


class Exclusion(NamedTuple):
    """Why a candidate is ruled out."""

    code: Code
    sentence: str


@dataclass(slots=True)
class Case:
    """One request on one candidate: all that a lasting constraint may look at.

    Of the request this is what was asked, not who asks: the same for every user.
    """

    request: Request
    candidate: Candidate
    settings: PolicySettings
    forecast: Forecast
    resources: Resources | str
    """The resources in the candidate's terms, or the sentence why there are none."""
    prediction: Prediction | None
    runtime_s: Interval | None
    memory: MemoryUse | None


LastingConstraint = Callable[[Case], Exclusion | None]


def runs_there(case: Case) -> Exclusion | None:
    """The program was built for what the candidate offers: device, machine, instructions."""
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
    """Return a sentence where the program needs instructions that the candidate may not have."""
    if candidate.platform in forecast.ran_on:
        return None
    for name in forecast.instruction_sets:
        if has(candidate.instruction_sets, name) is Has.UNKNOWN:
            return f"it needs {name}, which this place is not known to have"
    return None


def own_queue(case: Case) -> Exclusion | None:
    """A partition or queue that the user wrote is kept."""
    request = case.request
    if request.queue is None or request.wants_placement:
        return None
    if request.queue == case.candidate.queue:
        return None
    return Exclusion(Code.OTHER_QUEUE, f"you chose {request.queue}")


def own_features(case: Case) -> Exclusion | None:
    """Node features that the user wrote are kept, and the candidate must have them."""
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
    if _all_have(candidate, asked):
        text += f", which stays as it is: this place would need {candidate.constraint} beside it"
    return Exclusion(Code.OTHER_FEATURES, text)


def _has(candidate: Candidate, asked: str) -> bool:
    """Return whether every node of the candidate has these features, and nothing else is
    demanded."""
    return candidate.constraint is None and _all_have(candidate, asked)


def _all_have(candidate: Candidate, asked: str) -> bool:
    return all(name in candidate.features for name in asked.replace(",", "&").split("&"))


def own_gres(case: Case) -> Exclusion | None:
    """GPUs that the user asked for are kept: their type, and that they are GPUs at all."""
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
    """Each job step takes all GPUs of its job: steps that run at once would wait for each other."""
    adds_gpus = case.candidate.is_gpu and case.request.resources.gpus == 0
    if not (adds_gpus and case.request.packs_steps):
        return None
    return Exclusion(
        Code.PINNED_SHAPE, "your script starts several steps at once, which would share one GPU"
    )


def gres_matches(asked: str, offered: str | None) -> bool:
    """Return whether the GPUs asked for are those offered.

    ``gpu``, ``gpu:2`` and ``gres/gpu=2`` match any GPU; ``gpu:h200[:2]`` only that type.
    """
    if offered is None or "," in asked:
        return False
    parts = asked.removeprefix("gres/").removeprefix("gres:").replace("=", ":").split(":")
    if parts[-1].isdigit():
        parts.pop()
    return offered.split(":")[: len(parts)] == parts


def asks_for_none(asked: str) -> bool:
    """Return whether no GPU is wanted, which is a choice: ``none``, ``gpu:0``,
    ``gres/gpu:h200=0``."""
    parts = asked.removeprefix("gres/").removeprefix("gres:").replace("=", ":").split(":")
    return parts == ["none"] or (len(parts) > 1 and whole_number(parts[-1]) == 0)


def names_no_type(asked: str) -> bool:
    """Return whether any GPU will do and nothing else is asked: ``gpu``, ``gpu:2``,
    ``gres/gpu=2``."""
    name, _, count = (
        asked.removeprefix("gres/").removeprefix("gres:").replace("=", ":").partition(":")
    )
    return name == "gpu" and (not count or count.isdigit())


def one_slice(case: Case) -> Exclusion | None:
    """A CUDA program can use one slice, never several: more go only to who named their type."""
    request, held = case.request, case.resources
    if case.candidate.slice_of is None or isinstance(held, str) or held.gpus <= 1:
        return None
    if request.gres is not None and not names_no_type(request.gres):
        return None
    return Exclusion(
        Code.ONE_SLICE, f"it takes {held.gpus} GPUs, and a program can use only one slice"
    )


def translates(case: Case) -> Exclusion | None:
    """The request has a translation here: as much of everything exists."""
    if isinstance(case.resources, str):
        return Exclusion(Code.TOO_FEW_RESOURCES, case.resources)
    return None


def predicted(case: Case) -> Exclusion | None:
    """There is a prediction for this platform; one that abstains is a guess when not strict."""
    prediction = case.prediction
    if prediction is None or case.runtime_s is None or case.memory is None:
        return Exclusion(
            Code.NO_PREDICTION, f"nothing is predicted for platform {case.candidate.platform}"
        )
    if prediction.abstained is not None and case.settings.strict:
        return Exclusion(Code.OUT_OF_RANGE, prediction.abstained)
    return None


def better_than_a_prior(case: Case) -> Exclusion | None:
    """A prediction without calibration data for the platform is not acted on (strict only)."""
    if case.settings.allow_prior or not case.settings.strict or case.prediction is None:
        return None
    if case.prediction.basis is not Basis.PRIOR:
        return None
    return Exclusion(Code.PRIOR_ONLY, "the prediction is a prior only: no data for this platform")


def narrow_enough(case: Case) -> Exclusion | None:
    """The interval says something (strict only)."""
    runtime = case.runtime_s
    if runtime is None or not case.settings.strict:
        return None
    if runtime.high <= runtime.low * case.settings.max_interval_ratio:
        return None
    return Exclusion(
        Code.INTERVAL_TOO_WIDE,
        f"the prediction is too uncertain: {format_seconds(runtime.low)} to "
        f"{format_seconds(runtime.high)}",
    )


def intervals_hold(case: Case) -> Exclusion | None:
    """Predicted intervals on this platform have held for the jobs that ended (strict only)."""
    sentence = case.forecast.doubted.get(case.candidate.platform)
    if sentence is None or not case.settings.strict:
        return None
    return Exclusion(Code.INTERVALS_FAIL, sentence)


def memory_fits(case: Case) -> Exclusion | None:
    """The upper predicted memory fits: of the host in the nodes, of the GPU in the GPUs or slices.

    Neither stands for the other. Host memory that is not known rules a place without GPUs out;
    beside GPUs it is left to what the job asks for.
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
        elif not candidate.is_gpu:
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
    if gpus < measured_on:  # where it ran, each of them held a part only
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
    """The upper predicted time fits the limits, or the request's limit may be raised to it."""
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
    assert limit is not None  # noqa: S101 - only a limit is left that rules the place out
    return Exclusion(
        Code.TIME_OVER_LIMIT,
        f"it may take {format_seconds(upper)} and the time limit is {format_seconds(limit)}",
    )


def upper_s(runtime: Interval | None, forecast: Forecast, settings: PolicySettings) -> float:
    """Return the time that limits are judged by; less than any limit where no time is predicted.

    A forecast of a step or a token tells nothing of the whole job: only what was asked can be
    judged.
    """
    if runtime is None:
        return -math.inf
    return runtime.high * settings.time_margin if forecast.whole_job else 0.0


def admitted_s(request: Request, candidate: Candidate, settings: PolicySettings) -> float:
    """Return up to which upper predicted time the limits admit the job; below zero: they never
    do."""
    longest = math.inf if candidate.max_time_s is None else candidate.max_time_s
    if request.time_limit_s is not None and request.time_limit_s > longest:
        return -1.0
    limit = None if settings.may_raise_time_limit else present_limit_s(request, candidate)
    return longest if limit is None else min(limit, longest)


def present_limit_s(request: Request, candidate: Candidate) -> float | None:
    """Return the time limit the job would have if nothing is changed; None: no limit."""
    if request.time_limit_s is not None:
        return request.time_limit_s
    return candidate.max_time_s if candidate.default_time_s is None else candidate.default_time_s


OF_KIND: tuple[LastingConstraint, ...] = (
    runs_there,
    own_queue,
    own_features,
    own_gres,
    steps_at_once,
    translates,
)
"""Lasting ones that look neither at problem size nor at memory nor at the time limit."""
OF_PREDICTION: tuple[LastingConstraint, ...] = (
    one_slice,
    predicted,
    better_than_a_prior,
    intervals_hold,
)
"""Lasting constraints on what is predicted; too little memory for what was asked comes before."""
OF_NUMBERS: tuple[LastingConstraint, ...] = (narrow_enough, memory_fits)
"""Lasting constraints on predicted numbers and memory; ``time_fits`` comes after them."""


def first_of(constraints: tuple[LastingConstraint, ...], case: Case) -> Exclusion | None:
    """Return why the candidate is ruled out, by the first of them that does so."""
    for constraint in constraints:
        excluded = constraint(case)
        if excluded is not None:
            return excluded
    return None


def _or(names: tuple[str, ...]) -> str:
    return " or ".join(names)


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
