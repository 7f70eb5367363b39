"""Prediction: time, memory and energy of a workload on a platform, with intervals, or a reason to
abstain."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from pydantic_core import core_schema


class Basis(StrEnum):
    """The kind of evidence behind a prediction, best first."""

    MEASURED = "measured"
    """The workload ran on this platform with these resources."""
    LEARNED = "learned"
    """The workload ran on other platforms, and other workloads ran on this one."""
    CALIBRATED = "calibrated"
    """The bundle was trained with times on this platform with these resources."""
    SCALED = "scaled"
    """The bundle was trained with times on this platform at another core count, scaled by the
    roofline."""
    PRIOR = "prior"
    """No training time is from this platform: the workload's own time by the speeds of the cores,
    or the rates of the hardware alone. Not enforced unless the site says so."""

    @property
    def rank(self) -> int:
        """Return the rank of the basis; 0 is the best."""
        return _RANKS[self]


_RANKS = {basis: rank for rank, basis in enumerate(Basis)}


class Bound(StrEnum):
    """The resource that limits the workload on the platform."""

    MEMORY = "memory"
    COMPUTE = "compute"
    SERIAL = "serial"
    LAUNCH = "launch"
    LATENCY = "latency"
    UNKNOWN = "unknown"
    """The family does not determine the limiting resource."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A predicted quantity with ``low <= mid <= high``; [low, high] is the nominal 90 %
    interval."""

    low: float
    mid: float
    high: float

    def __post_init__(self) -> None:
        if not (0 <= self.low <= self.mid <= self.high < math.inf):
            raise ValueError(f"not an interval: {self.low}, {self.mid}, {self.high}")

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> core_schema.CoreSchema:
        """Return how pydantic reads and writes an interval: as [low, mid, high]."""
        ends = core_schema.tuple_schema([core_schema.float_schema()] * 3)
        return core_schema.no_info_after_validator_function(
            lambda values: cls(*values),
            ends,
            serialization=core_schema.plain_serializer_function_ser_schema(rounded),
        )

    def __iter__(self) -> Iterator[float]:
        """Yield the lower end, the middle and the upper end."""
        yield from (self.low, self.mid, self.high)

    def scaled(self, factor: float) -> Interval:
        """Return the interval with all three numbers multiplied by ``factor`` (at least 0)."""
        return Interval(self.low * factor, self.mid * factor, self.high * factor)

    def times(self, other: Interval) -> Interval:
        """Return the product of two intervals: low by low, middle by middle, high by high."""
        return Interval(self.low * other.low, self.mid * other.mid, self.high * other.high)

    def divided_by(self, other: Interval) -> Interval:
        """Return the quotient of two intervals: low by high, middle by middle, high by low."""
        return Interval(self.low / other.high, self.mid / other.mid, self.high / other.low)

    def between(self, other: Interval, weight: float) -> Interval:
        """Return the interval interpolated in log between this one (weight 0) and ``other`` (weight
        1)."""
        low, mid, high = (
            math.exp(math.log(a) * (1 - weight) + math.log(b) * weight)
            for a, b in zip(self, other, strict=True)
        )
        return Interval(min(low, mid), mid, max(mid, high))

    @property
    def log_width(self) -> float:
        """Return the natural log of the upper end over the middle."""
        return math.log(self.high / self.mid)

    @property
    def half_log_width(self) -> float:
        """Return half the natural log of the upper over the lower end; infinity where the lower end
        is 0."""
        return math.log(self.high / self.low) / 2 if self.low > 0 else math.inf

    def over(self, numerator: float) -> Interval:
        """Return ``numerator`` divided by the quantity, for example a speedup from a time."""
        return Interval(numerator / self.high, numerator / self.mid, numerator / self.low)

    def moved(self, old: Interval, new: Interval) -> Interval:
        """Return an interval of a sum after one summand changed from ``old`` to ``new``."""
        low = max(0.0, self.low + new.low - old.low)
        mid = max(low, self.mid + new.mid - old.mid)
        return Interval(low, mid, max(mid, self.high + new.high - old.high))


_WIDEST = math.log(1e6)
"""Largest half width in log of a ratio's interval, as of a time's."""


def rounded(interval: Interval) -> list[float]:
    """Return [low, mid, high] of the interval rounded to six digits, for JSON."""
    return [float(f"{v:.6g}") for v in interval]


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Peak memory of a job: on its nodes, and on its GPUs or MIG slices.

    The two are independent. None: unknown.
    """

    host_bytes: Interval | None = None
    """Memory of all nodes of the job together."""
    gpu_bytes: Interval | None = None
    """Memory of all GPUs of the job together; None also where the job has no GPU."""
    gpu_held_in_bytes: float | None = None
    """Memory in bytes of one GPU of the smallest model that the job ran on with as many GPUs.

    The job fits on GPUs of this size, whether its GPU memory was measured or not.
    """

    def scaled(self, factor: float) -> MemoryUse:
        """Return the memory use when ``factor`` times as many nodes and GPUs need the same memory
        each."""
        return self._each(lambda need: need.scaled(factor))

    def times(self, ratio: Interval) -> MemoryUse:
        """Return host and GPU memory multiplied by a ratio; the ratio's interval widens theirs."""
        return self._each(lambda need: need.times(ratio))

    def fits_gpus(self, gpu_bytes: float, gpus: int = 1) -> bool:
        """Return whether the job certainly fits on ``gpus`` GPUs or slices with ``gpu_bytes``
        each."""
        if self.gpu_bytes is not None and self.gpu_bytes.high <= gpu_bytes * gpus:
            return True
        return self.gpu_held_in_bytes is not None and self.gpu_held_in_bytes <= gpu_bytes

    def _each(self, changed: Callable[[Interval], Interval]) -> MemoryUse:
        host, gpu = self.host_bytes, self.gpu_bytes
        return MemoryUse(
            None if host is None else changed(host),
            None if gpu is None else changed(gpu),
            self.gpu_held_in_bytes,
        )


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted speedup, run time, memory and energy of one workload on one platform.

    ``speedup`` is t_reference / t_target (> 1: faster on the target). ``abstained`` holds the
    reason where Berth does not vouch for the numbers; they are then a best guess to show and never
    to enforce.
    """

    workload: str
    """Name of the workload."""
    platform: str
    cores: int
    gpus: int
    basis: Basis
    speedup: Interval
    runtime_s: Interval
    memory: MemoryUse
    energy_j: Interval | None
    bound: Bound
    abstained: str | None = None
    unit_power_w: float | None = None
    """Mean power in watts per core or GPU in finished jobs of the workload; None: unknown."""
    nodes: int = 1
    """Number of nodes; ``cores`` and ``gpus`` count those of all nodes together."""
    own_log_width: float | None = None
    """Half width of the 90 % interval of the part of the time's error that this platform does not
    share with the workload's predictions on other platforms, in natural log of time.

    The shared part (how long the job itself takes) cancels where two platforms are compared. None:
    not known, the whole error counts as the platform's own.
    """
    usual_ratio: float | None = None
    """How many times longer programs usually take here than on a platform that is the same for all
    predictions of a workload; None: not known."""
    launch_s: float = 0.0
    """Seconds of ``runtime_s`` that start parallel regions or GPU kernels; another problem size
    keeps them."""

    @property
    def ratio_log_width(self) -> float:
        """Return the half width in natural log with which this time enters a ratio of two
        platforms' times."""
        return self.ratio_log_width_of(self.runtime_s)

    def ratio_log_width_of(self, time: Interval) -> float:
        """Return the half width in natural log with which ``time`` enters a ratio of two platforms'
        times: ``own_log_width``, at most the half width of ``time``.

        ``time``: the predicted time with other resources or another problem size, whose effect the
        platforms share.
        """
        whole = time.half_log_width
        return whole if self.own_log_width is None else min(self.own_log_width, whole)

    def times_faster_than(self, other: Prediction) -> Interval:
        """Return the ratio ``other``'s time / this time with its 90 % interval (> 1: this platform
        is faster).

        The errors of the two that are not shared are independent: their half widths in log add up
        in squares.
        """
        ratio = other.runtime_s.mid / self.runtime_s.mid
        factor = math.exp(min(math.hypot(self.ratio_log_width, other.ratio_log_width), _WIDEST))
        return Interval(ratio / factor, ratio, ratio * factor)


@dataclass(frozen=True, slots=True)
class PredictionCurve:
    """Predictions of one workload on one platform over a grid of core or GPU counts, ascending.

    Computed when a profile is added or the bundle changes; at submit time a look-up with log-log
    interpolation between grid points suffices.
    """

    points: tuple[Prediction, ...]

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("a curve without predictions")

    def runtime_at(self, units: int) -> Interval:
        """Return the time in seconds with ``units`` cores or GPUs.

        Outside the grid the time of the nearest grid point is returned.
        """
        grid = [p.gpus or p.cores for p in self.points]
        index = bisect.bisect_left(grid, units)
        if index == 0:
            return self.points[0].runtime_s
        if index == len(grid):
            return self.points[-1].runtime_s
        if grid[index] == units:
            return self.points[index].runtime_s
        left, right = self.points[index - 1].runtime_s, self.points[index].runtime_s
        weight = math.log(units / grid[index - 1]) / math.log(grid[index] / grid[index - 1])
        return left.between(right, weight)

    def nearest(self, units: int) -> Prediction:
        """Return the prediction at the largest grid point up to ``units``; the first where all are
        above."""
        grid = [p.gpus or p.cores for p in self.points]
        return self.points[max(0, bisect.bisect_right(grid, units) - 1)]
