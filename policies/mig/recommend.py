"""Recommend a MIG slice for a workload: the smallest slice that fits and the best for a goal.

A slice *fits* if its memory is at least the upper end of the workload's GPU memory interval; host
memory is not considered. The predictions for the slices come from ``on_slices``; this module only
holds the rules of choice. The same input gives the same recommendation.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from berth.pilot.errors import UsageError
from berth.pilot.units import format_bytes, format_seconds
from berth.policies.mig.demands import Demand, SliceOption
from berth.policies.mig.layout import GpuState
from berth.policies.mig.on_slices import OnSlice, OnSlices
from berth.predictor.core.prediction import Basis, Interval, MemoryUse
from berth.predictor.families.slices.physics import plain_profiles
from berth.predictor.families.slices.predictor import TYPICAL
from berth.predictor.hardware.mig.geometry import Geometry, SliceProfile
from berth.predictor.hardware.mig.slices import part_of_gpu

UNDER_LIMIT, WIDE = 0.5, math.log(1.5)


def room_to_spare(log_width: float) -> float:
    """Return how far above the predicted time, in log, a latency limit must be: half the way to the
    upper end of the interval, and all of it where that is more than a factor 1.5 away.

    By the predicted time alone 8 to 33 % of picks are too small, by the upper end a third of the
    narrow ones too large (``python -m lab mig-slices``).
    """
    return log_width if log_width > WIDE else UNDER_LIMIT * log_width


class Aim(StrEnum):
    """The goal by which the best slice is chosen among those that fit and keep the latency
    limit."""

    SMALLEST = "smallest"
    """Smallest slice: fewest memory slices, then fewest compute slices."""
    FASTEST = "fastest"
    """Shortest predicted time, by the upper end of the 90 % interval."""
    THROUGHPUT = "throughput"
    """Highest throughput divided by the part of the GPU that the slice takes."""
    ENERGY = "energy"
    """Least energy for the same work."""
    COST = "cost"
    """Least price for the same work."""


@dataclass(frozen=True, slots=True)
class SliceTerms:
    """The goal, the latency limit and the site's price per GPU hour."""

    aim: Aim = Aim.SMALLEST
    latency_limit_s: float | None = None
    """Longest time of one unit (batch or job); the predicted time must keep it with room to spare
    (``room_to_spare``)."""
    price_per_hour: float | None = None
    """Price of the whole GPU per hour; a slice costs its part of the GPU times this price."""


@dataclass(frozen=True, slots=True)
class SliceChoice:
    """A slice profile with the workload's predictions on it; energy and price are per unit of
    work."""

    profile: SliceProfile
    part: float
    """Part of the GPU that the slice takes: the larger of its compute and memory parts, 0 to 1."""
    prediction: OnSlice
    throughput_per_s: Interval
    """Items (such as samples) per second, summed over all processes of the workload."""
    price: Interval | None
    fits: bool
    refused: str | None
    """Why the slice cannot be chosen; None: it can be chosen."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The recommended slices of one GPU model for one workload, with all candidates."""

    workload: str
    gpu: str
    terms: SliceTerms
    unit: str
    """The unit of the predicted times: ``batch``, ``request``, ``token`` or ``job``."""
    units: float | None
    """Number of units of work in a whole job; None: unknown."""
    memory: MemoryUse
    choices: tuple[SliceChoice, ...]
    """The profiles with a prediction, without media variants, in ascending order of size."""
    smallest: SliceChoice | None
    best: SliceChoice | None
    reason: str


def recommend(
    known: OnSlices,
    geometry: Geometry,
    terms: SliceTerms = SliceTerms(),
    *,
    possible: Collection[str] | None = None,
) -> Recommendation:
    """Return the smallest slice of ``geometry`` that fits the workload, and the best for the goal.

    ``possible``: the profiles that are available (default: all). Media variants are left out.
    Raises UsageError where the goal needs a number that is missing.
    """
    _check(known, terms)
    profiles = [p for p in plain_profiles(geometry) if p.name in known.on]
    choices = tuple(
        _choice(known, geometry, terms, p, possible is None or p.name in possible) for p in profiles
    )
    allowed = [c for c in choices if c.refused is None]
    smallest = min(allowed, key=_size, default=None)
    best, reason = _best(allowed, choices, terms, known.unit)
    memory = choices[0].prediction.memory
    return Recommendation(
        known.workload, geometry.gpu, terms, known.unit, known.units, memory, choices, smallest,
        best, reason,
    )  # fmt: skip


def _size(choice: SliceChoice) -> tuple[int, int, str]:
    profile = choice.profile
    return (profile.memory_slices, profile.compute_slices, profile.name)


def _check(known: OnSlices, terms: SliceTerms) -> None:
    if terms.aim is Aim.COST and terms.price_per_hour is None:
        raise UsageError("the aim cost needs the price of the whole GPU per hour")
    if terms.aim is Aim.ENERGY and any(on_slice.energy_j is None for on_slice in known.on.values()):
        raise UsageError(
            f"the aim energy needs the power that {known.workload} draws, which is not known",
            hint="in a workload of slices: power_w at the point to place, and idle_power_w",
        )
    if terms.latency_limit_s is not None and not known.is_latency:
        raise UsageError(
            f"the predicted time of {known.workload} is a {known.unit}'s share at full load, not "
            "how long one takes: there is no latency to limit",
            hint="berth predict shows the time to the first token and for each further one",
        )
    for name, value in (("latency limit", terms.latency_limit_s), ("price", terms.price_per_hour)):
        if value is not None and not 0 < value < 1e12:
            raise UsageError(f"the {name} is {value:g}; a positive number is needed")


def _choice(
    known: OnSlices, geometry: Geometry, terms: SliceTerms, profile: SliceProfile, possible: bool
) -> SliceChoice:
    on_slice = known.on[profile.name]
    part = part_of_gpu(geometry, profile)
    is_whole = profile.compute_slices >= geometry.compute_slices
    enough = on_slice.memory.fits_gpus(profile.memory_bytes) or (
        is_whole and on_slice.memory.gpu_bytes is None
    )
    time = on_slice.time_s
    rate = Interval(known.items / time.high, known.items / time.mid, known.items / time.low)
    price = None
    if terms.price_per_hour is not None:
        price = time.scaled(terms.price_per_hour / 3600 * part)
    refused = None
    if not possible:
        refused = "the fleet has none"
    elif not enough:
        refused = _too_small(profile, on_slice.memory)
    elif terms.latency_limit_s is not None and (
        time.mid * math.exp(room_to_spare(time.log_width)) > terms.latency_limit_s
    ):
        refused = (
            f"a {known.unit} takes {format_seconds(time.mid)} "
            f"({format_seconds(time.low)} to {format_seconds(time.high)}), the limit is "
            f"{format_seconds(terms.latency_limit_s)}"
        )
    return SliceChoice(profile, part, on_slice, rate, price, enough, refused)


def _too_small(profile: SliceProfile, memory: MemoryUse) -> str:
    need = memory.gpu_bytes
    if need is None:
        return "its GPU memory is not known"
    return (
        f"may need {format_bytes(need.high)} of GPU memory, it has "
        f"{format_bytes(profile.memory_bytes)}"
    )


def _best(
    allowed: Sequence[SliceChoice], choices: Sequence[SliceChoice], terms: SliceTerms, unit: str
) -> tuple[SliceChoice | None, str]:
    if not allowed:
        last = choices[-1]
        return None, f"no slice is left; of {last.profile.name}: {last.refused}"
    unsure = next((c.prediction.abstained for c in allowed if c.prediction.abstained), None)
    if unsure is not None and terms.aim is not Aim.SMALLEST:
        return min(allowed, key=_size), f"the smallest that fits: no prediction, {unsure}"
    best = min(allowed, key=lambda c: (_score(c, terms.aim), _size(c)))
    return best, _why(best, terms, unit)


def _score(choice: SliceChoice, aim: Aim) -> float:
    if aim is Aim.FASTEST:
        return choice.prediction.time_s.high
    if aim is Aim.THROUGHPUT:
        return -choice.throughput_per_s.mid / choice.part
    if aim is Aim.ENERGY and choice.prediction.energy_j is not None:
        return choice.prediction.energy_j.mid
    if aim is Aim.COST and choice.price is not None:
        return choice.price.mid
    return 0.0


_WHY = {
    Aim.SMALLEST: "the smallest slice that fits",
    Aim.FASTEST: "the shortest time of those that fit",
    Aim.THROUGHPUT: "the most work for the part of the GPU that it takes",
    Aim.ENERGY: "the least energy for the same work",
    Aim.COST: "the least price for the same work",
}


def _why(best: SliceChoice, terms: SliceTerms, unit: str) -> str:
    words = _WHY[terms.aim]
    if terms.latency_limit_s is not None:
        words += f" within {format_seconds(terms.latency_limit_s)} a {unit}"
        if (most := best.prediction.time_s.high) > terms.latency_limit_s:
            words += f" (as predicted; at most {format_seconds(most)} with 95 % certainty)"
    slowdown = best.prediction.slowdown
    words += (
        f"; {slowdown.mid:.2f} ({slowdown.low:.2f} to {slowdown.high:.2f}) times "
        "the whole GPU's time"
    )
    if best.prediction.basis is Basis.PRIOR and best.prediction.method == TYPICAL:
        words += ", as for other programs: its utilisation, or a run on a slice, would tell its own"
    elif best.prediction.basis is Basis.PRIOR:
        words += ", by a model that was not checked on this GPU"
    return words


def makeable(fleet: Iterable[GpuState], *, recut: bool) -> frozenset[str]:
    """Return the MIG profiles present in the fleet; with ``recut``, also those its GPUs can be
    given."""
    cut_gpus = [state for state in fleet if state.mig_enabled]
    present = {i.profile for state in cut_gpus for i in state.layout.instances}
    plain = {p.name for state in cut_gpus for p in state.geometry.profiles if p.is_plain}
    return frozenset(present | plain if recut else present)


def demand_on(
    recommendations: Sequence[Recommendation],
    *,
    runtime_s: float | None = None,
    count: int = 1,
    priority: int = 0,
) -> Demand:
    """Return the planner's demand for a workload: its predictions on the slices that may be chosen.

    ``recommendations`` holds one entry per GPU model, at least one. Throughput is relative to the
    whole GPU. ``runtime_s`` is the job's run time on the whole GPU (default: from the workload's
    amount of work). Energy is included where it is known. Raises UsageError where no slice may be
    chosen.
    """
    options = tuple(
        option
        for recommendation in recommendations
        for option in _options(recommendation, runtime_s)
    )
    if not options:
        why = "; ".join(
            f"{recommendation.gpu}: {recommendation.reason}" for recommendation in recommendations
        )
        raise UsageError(f"no slice is good for {recommendations[0].workload} ({why})")
    return Demand(recommendations[0].workload, options, count, priority).check()


def _options(recommendation: Recommendation, runtime_s: float | None) -> tuple[SliceOption, ...]:
    allowed = [c for c in recommendation.choices if c.refused is None]
    options = []
    for choice in allowed:
        on_slice = choice.prediction
        whole_s = on_slice.time_s.mid / on_slice.slowdown.mid
        units = recommendation.units if runtime_s is None else runtime_s / whole_s
        options.append(
            SliceOption(
                profile=choice.profile.name,
                gpu=recommendation.gpu,
                throughput=1 / on_slice.slowdown.mid,
                runtime_s=None if units is None else on_slice.time_s.mid * units,
                energy_j=None
                if units is None or on_slice.energy_j is None
                else on_slice.energy_j.mid * units,
            )
        )
    return tuple(options)
