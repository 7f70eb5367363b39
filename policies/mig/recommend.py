"""Which slice of a GPU a workload should get: the smallest that fits, and the best by an aim.

A slice *fits* where its memory reaches the upper end of the workload's memory interval. What a
workload does on each slice comes from ``predictor.families.slices``; here are only rules. The same
input gives the same answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from berth.pilot.errors import UsageError
from berth.pilot.units import format_bytes, format_seconds
from berth.policies.mig import thesis
from berth.policies.mig.slice_types import fits
from berth.predictor.core.prediction import Basis, Interval
from berth.predictor.families.slices.physics import Share
from berth.predictor.families.slices.predictor import SlicePrediction, SlicePredictor
from berth.predictor.families.slices.workload import SliceWorkload
from berth.predictor.hardware.mig.catalogue import lookup
from berth.predictor.hardware.mig.geometry import Geometry, SliceProfile


class Aim(StrEnum):
    """What the best slice is best at, among those that fit and keep the latency limit."""

    SMALLEST = "smallest"
    """Least of the GPU."""
    FASTEST = "fastest"
    """Shortest time, by the upper end of its interval."""
    THROUGHPUT = "throughput"
    """Most work for the part of the GPU that it takes: throughput per slice."""
    ENERGY = "energy"
    """Least energy for the same work."""
    COST = "cost"
    """Least price for the same work."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is wanted and what is known of the site."""

    aim: Aim = Aim.SMALLEST
    latency_limit_s: float | None = None
    """A batch must be done within it, by the upper end of the 90 % interval."""
    price_per_hour: float | None = None
    """Of the whole GPU; a slice costs the part of it that it takes."""


@dataclass(frozen=True, slots=True)
class SliceChoice:
    """One slice profile and what the workload does on it. Energy and price are of one batch."""

    profile: SliceProfile
    part: float
    """Of the GPU that others cannot have: the larger of its parts of compute and memory."""
    prediction: SlicePrediction
    throughput_per_s: Interval
    """Items a second, of all processes together."""
    energy_j: Interval | None
    price: Interval | None
    fits: bool
    refused: str | None
    """Why it cannot be chosen; None: it can."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """What the thesis's rules say (A100 40 GB only)."""

    by_memory: str | None
    by_utilisation: str | None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer for one workload and one GPU model."""

    workload: str
    gpu: str
    terms: Terms
    memory: Interval | None
    choices: tuple[SliceChoice, ...]
    """Every plain profile, small before large."""
    smallest: SliceChoice | None
    best: SliceChoice | None
    reason: str
    baselines: Baselines


def recommend(
    workload: SliceWorkload,
    geometry: Geometry,
    predictor: SlicePredictor,
    terms: Terms = Terms(),
    *,
    possible: Collection[str] | None = None,
) -> Recommendation:
    """The smallest and the best slice of ``geometry`` for the workload.

    ``possible``: the profiles that can be had (default: all). Media variants are left out.
    Raises UsageError where the workload was measured on another GPU model, a probe names no slice
    of it, the aim needs a number that is missing, or nothing can be predicted at all.
    """
    gpu = geometry.gpu
    if lookup(workload.gpu).gpu != gpu:
        raise UsageError(
            f"{workload.name} was measured on {workload.gpu}, not on {gpu}",
            hint="measure it on the whole GPU that is to be sliced",
        )
    _check(workload, terms)
    profiles = _plain(geometry)
    probes = [(share_of(geometry, geometry.profile(p.profile)), i)
              for i, p in enumerate(workload.probes)]  # fmt: skip
    predictions = predictor.predict(
        workload, [share_of(geometry, p) for p in profiles], gpu=gpu, probes=probes
    )
    choices = tuple(
        _choice(workload, terms, p, made, possible is None or p.name in possible)
        for p, made in zip(profiles, predictions, strict=True)
    )
    allowed = [c for c in choices if c.refused is None]
    smallest = min(allowed, key=_size, default=None)
    best, reason = _best(allowed, choices, terms)
    memory = None if workload.memory is None else workload.memory.interval
    return Recommendation(
        workload.name, gpu, terms, memory, choices, smallest, best, reason,
        _baselines(workload, geometry, memory),
    )  # fmt: skip


def share_of(geometry: Geometry, profile: SliceProfile) -> Share:
    """The profile's parts of compute and memory."""
    return Share(
        min(1.0, profile.compute_slices / geometry.compute_slices),
        min(1.0, profile.memory_slices / geometry.memory_slices),
    )


def _plain(geometry: Geometry) -> tuple[SliceProfile, ...]:
    return tuple(sorted((p for p in geometry.profiles if p.is_plain), key=_profile_size))


def _profile_size(profile: SliceProfile) -> tuple[int, int, str]:
    return (profile.memory_slices, profile.compute_slices, profile.name)


def _size(choice: SliceChoice) -> tuple[int, int, str]:
    return _profile_size(choice.profile)


def _check(workload: SliceWorkload, terms: Terms) -> None:
    if terms.aim is Aim.COST and terms.price_per_hour is None:
        raise UsageError("the aim cost needs the price of the whole GPU per hour")
    point = workload.target
    if terms.aim is Aim.ENERGY and (
        point is None or point.power_w is None or workload.idle_power_w is None
    ):
        raise UsageError(
            f"the aim energy needs power_w at the point to place and idle_power_w; "
            f"{workload.name} lacks them"
        )
    for name, value in (("latency limit", terms.latency_limit_s), ("price", terms.price_per_hour)):
        if value is not None and not 0 < value < 1e12:
            raise UsageError(f"the {name} is {value:g}; a positive number is needed")


def _choice(
    workload: SliceWorkload,
    terms: Terms,
    profile: SliceProfile,
    made: SlicePrediction,
    possible: bool,
) -> SliceChoice:
    share = made.share
    part = max(share.compute, share.memory)
    need = None if workload.memory is None else workload.memory.interval
    enough = share.is_whole if need is None else fits(profile.memory_bytes, need)
    items = workload.target_batch * workload.processes
    rate = Interval(items / made.step_s.high, items / made.step_s.mid, items / made.step_s.low)
    price = None
    if terms.price_per_hour is not None:
        price = made.step_s.scaled(terms.price_per_hour / 3600 * part)
    refused = None
    if not possible:
        refused = "the fleet cannot make it"
    elif not enough:
        refused = _too_small(profile, need)
    elif terms.latency_limit_s is not None and made.step_s.high > terms.latency_limit_s:
        refused = (
            f"a batch may take {format_seconds(made.step_s.high)}, the limit is "
            f"{format_seconds(terms.latency_limit_s)}"
        )
    return SliceChoice(
        profile, part, made, rate, _energy(workload, made, part), price, enough, refused
    )


def _too_small(profile: SliceProfile, need: Interval | None) -> str:
    if need is None:
        return "its memory need is not known"
    return (
        f"may need {format_bytes(need.high)} of memory, it has {format_bytes(profile.memory_bytes)}"
    )


def _energy(workload: SliceWorkload, made: SlicePrediction, part: float) -> Interval | None:
    """Joules a batch: the same switching as on the whole GPU, idle power by part and time.

    An assumption: nobody measured the power of slices in the data that Berth has.
    """
    point, idle = workload.target, workload.idle_power_w
    if point is None or point.power_w is None or idle is None:
        return None
    switching = max(point.power_w - idle, 0.0) * point.seconds
    still = made.step_s.scaled(idle * part)
    return Interval(switching + still.low, switching + still.mid, switching + still.high)


def _best(
    allowed: Sequence[SliceChoice], choices: Sequence[SliceChoice], terms: Terms
) -> tuple[SliceChoice | None, str]:
    if not allowed:
        last = choices[-1]
        return None, f"no slice is left; of {last.profile.name}: {last.refused}"
    unsure = next((c.prediction.abstained for c in allowed if c.prediction.abstained), None)
    if unsure is not None and terms.aim is not Aim.SMALLEST:
        return min(allowed, key=_size), f"the smallest that fits: no prediction, {unsure}"
    best = min(allowed, key=lambda c: (_score(c, terms.aim), _size(c)))
    return best, _why(best, terms)


def _score(choice: SliceChoice, aim: Aim) -> float:
    if aim is Aim.FASTEST:
        return choice.prediction.step_s.high
    if aim is Aim.THROUGHPUT:
        return -choice.throughput_per_s.mid / choice.part
    if aim is Aim.ENERGY and choice.energy_j is not None:
        return choice.energy_j.mid
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


def _why(best: SliceChoice, terms: Terms) -> str:
    words = _WHY[terms.aim]
    if terms.latency_limit_s is not None:
        words += f" and keep {format_seconds(terms.latency_limit_s)} a batch"
    made = best.prediction
    words += (
        f"; {made.slowdown.mid:.2f} ({made.slowdown.low:.2f} to {made.slowdown.high:.2f}) times "
        "the whole GPU's time"
    )
    if made.basis is Basis.PRIOR:
        words += ", by a law that was not checked here"
    return words


def _baselines(workload: SliceWorkload, geometry: Geometry, memory: Interval | None) -> Baselines:
    if not set(thesis.LIMITS_MB) <= set(geometry.by_name):
        return Baselines(None, None)
    point = workload.target
    used = None if point is None else point.sm_utilization
    return Baselines(
        None if memory is None else thesis.by_memory(memory.mid / 1e6),
        None if used is None else thesis.by_utilisation(used),
    )
