"""Prediction: what a workload will do on a platform, with intervals, or why we do not know."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Basis(StrEnum):
    """The kinds of evidence that a prediction rests on, best first."""

    MEASURED = "measured"
    """The workload was run on this very platform with these resources."""
    LEARNED = "learned"
    """Runs of this workload on other platforms, and what other workloads did on this one."""
    CALIBRATED = "calibrated"
    """The bundle has labels for this platform and this resource count."""
    SCALED = "scaled"
    """Labels for this platform, at another core count; physics did the rest."""
    PRIOR = "prior"
    """No label for this platform: roofline only. Not enforced unless the site says so."""

    @property
    def rank(self) -> int:
        """Return the place of the basis; 0 is best."""
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
    """The family cannot say."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A predicted quantity: ``low <= mid <= high``; [low, high] is the nominal 90 % interval."""

    low: float
    mid: float
    high: float

    def __post_init__(self) -> None:
        if not (0 <= self.low <= self.mid <= self.high < math.inf):
            raise ValueError(f"not an interval: {self.low}, {self.mid}, {self.high}")

    def scaled(self, factor: float) -> Interval:
        """Return the interval with all three numbers times ``factor`` (>= 0)."""
        return Interval(self.low * factor, self.mid * factor, self.high * factor)

    def times(self, other: Interval) -> Interval:
        """Return the product of two quantities whose errors may add up."""
        return Interval(self.low * other.low, self.mid * other.mid, self.high * other.high)

    def divided_by(self, other: Interval) -> Interval:
        """Return the quotient of two quantities whose errors may add up."""
        return Interval(self.low / other.high, self.mid / other.mid, self.high / other.low)

    def between(self, other: Interval, weight: float) -> Interval:
        """Return the interval that is ``weight`` of the way to ``other``, in log."""
        low, mid, high = (
            math.exp(math.log(a) * (1 - weight) + math.log(b) * weight)
            for a, b in ((self.low, other.low), (self.mid, other.mid), (self.high, other.high))
        )
        return Interval(min(low, mid), mid, max(mid, high))

    @property
    def log_width(self) -> float:
        """Return the log of the upper end over the middle: half of the width in log."""
        return math.log(self.high / self.mid)

    def over(self, numerator: float) -> Interval:
        """Return ``numerator`` over the quantity: a speedup from a time, for instance."""
        return Interval(numerator / self.high, numerator / self.mid, numerator / self.low)

    def moved(self, old: Interval, new: Interval) -> Interval:
        """Return the interval with its part ``old`` replaced by ``new``."""
        low = max(0.0, self.low + new.low - old.low)
        mid = max(low, self.mid + new.mid - old.mid)
        return Interval(low, mid, max(mid, self.high + new.high - old.high))


def rounded(interval: Interval) -> list[float]:
    """Return the interval as JSON holds it, to six digits."""
    return [float(f"{v:.6g}") for v in (interval.low, interval.mid, interval.high)]


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Peak memory of a job, in the memory of its nodes and in that of its GPUs or slices.

    Neither says anything of the other. None: not known.
    """

    host_bytes: Interval | None = None
    """Memory of all its nodes together."""
    gpu_bytes: Interval | None = None
    """Memory of all its GPUs together; None also where it has none."""
    gpu_held_in_bytes: float | None = None
    """Memory of the smallest kind of GPU that it is known to have run on, with as many of them: it
    fits where each has as much, whether its GPU memory was measured or not."""

    def scaled(self, factor: float) -> MemoryUse:
        """Return the memory of ``factor`` times as many nodes and GPUs that each need as much."""
        return self._each(lambda need: need.scaled(factor))

    def times(self, ratio: Interval) -> MemoryUse:
        """Return both needs times a ratio whose error may add to theirs."""
        return self._each(lambda need: need.times(ratio))

    def fits_gpus(self, gpu_bytes: float, gpus: int = 1) -> bool:
        """Return whether it certainly fits in so many GPUs or slices with ``gpu_bytes`` each."""
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
    """One workload on one platform with given resources.

    ``speedup`` is t_reference / t_target (> 1: faster on the target).
    ``abstained`` holds the reason where Berth does not know; the numbers are then the best
    guess, to be shown but never enforced.
    """

    workload: str
    """Its name."""
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
    """Mean power of each core or GPU that finished jobs of the workload drew; None: not known."""
    nodes: int = 1
    """Nodes that the cores or GPUs are on; those of all nodes together are counted."""


@dataclass(frozen=True, slots=True)
class PredictionCurve:
    """Predictions of one workload on one platform over a grid of core counts (ascending).

    Made once, when a profile is added or the bundle changes; at submit time ``at`` is a look-up
    with log-log interpolation between grid points. GPU platforms have one point per GPU count.
    """

    points: tuple[Prediction, ...]

    def runtime_at(self, units: int) -> Interval:
        """Return the time in seconds with ``units`` cores or GPUs; clamped to the grid."""
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
        """Return the grid point at or below ``units`` (the first one if all are above)."""
        grid = [p.gpus or p.cores for p in self.points]
        return self.points[max(0, bisect.bisect_right(grid, units) - 1)]
