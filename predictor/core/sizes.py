"""How time and peak memory change with the problem size.

The model is ``y(n) = a + b * n**p``: ``y`` is the time in seconds or the peak memory in bytes,
``n`` the problem size. It is linear unless ``y`` grew faster than the size between the two largest
measured sizes (``power_law``). With one run nothing can be fitted, and the interval widens quickly
with the distance from the measured size.

Upper bounds of memory protect a job from being killed, so they are never below the measured peak.
Outside the measured sizes an interval covers every exponent that fits the measured runs as well as
``p`` does: a program whose constant part still dominates may grow with the cube of the size later
on. Beyond ten times the largest measured size memory is unknown.

"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from berth.pilot.errors import UsageError
from berth.predictor.core.power_law import PowerLaw, fit_power_law, possible_values
from berth.predictor.core.prediction import Interval, MemoryUse

MEASURED_MARGIN = 1.10
"""Ratio of the memory's upper bound to a peak measured at the same size: allocators and inputs vary
between runs.
"""
SINGLE_SIZE_MARGIN = 1.25
"""Ratio of the memory's upper bound to the measured peak where only one size was run."""
FURTHEST = 10.0
"""Memory is unknown beyond this multiple of the largest measured size."""
SLOPE_UNCERTAINTY = 0.15
"""Uncertainty of the exponent outside the measured sizes, per unit of log(size / nearest measured
size).
"""
_UNKNOWN_EXPONENTS = (0.0, 1.0, 3.0)
"""Exponents assumed with one measured size: constant (low), linear (middle), and cubic (high; dense
solvers)."""


@dataclass(frozen=True, slots=True)
class SizeGrowth:
    """Time and memory of one program as functions of its problem size.

    ``size``: the size of the profile's main run. None: the program has no size; requests that name
    one get the main run's numbers and the sentence of ``doubt``. ``measured``: all sizes that were
    run, ascending.
    """

    size: float | None
    peak_memory_bytes: float | None
    measured: tuple[float, ...] = ()
    runtime: PowerLaw | None = None
    memory: PowerLaw | None = None
    peak_is_bound: bool = False
    """Whether the measured peak is only an upper bound: the program was too small to separate its
    memory from that of its launcher."""
    gpu_peak_bytes: float | None = None
    """Peak memory of all GPUs together at ``size``; None: not measured, or the program used no GPU.
    """

    @classmethod
    def fit(
        cls,
        points: Sequence[tuple[float, float, float]],
        *,
        size: float | None = None,
        peak_memory_bytes: float | None = None,
        bounds: Collection[float | None] = (),
        gpu_peak_bytes: float | None = None,
    ) -> SizeGrowth:
        """Return time and memory fitted to measured ``(size, runtime_s, peak_memory_bytes)``
        points.

        ``size`` and the peaks are those of the profile's main run. ``bounds``: the sizes whose peak
        is only an upper bound. The memory fit leaves these peaks out, unless the main run's peak is
        itself a bound: the fit then gives an upper bound up to the largest measured size. Raises
        UsageError where a number is not positive and finite.
        """
        for point in points:
            if not all(math.isfinite(v) and v > 0 for v in point):
                raise UsageError(f"size point {point} has a number that is not positive and finite")
        ordered = sorted(points)
        if size is None and len(ordered) == 1:
            size = ordered[0][0]
        if size is None and ordered:
            size = ordered[-1][0]
        if peak_memory_bytes is None and ordered:
            peak_memory_bytes = next((m for s, _, m in ordered if s == size), ordered[-1][2])
        measured = tuple(p[0] for p in ordered)
        bound = size in bounds
        if len(ordered) < 2:
            return cls(
                size,
                peak_memory_bytes,
                measured,
                peak_is_bound=bound,
                gpu_peak_bytes=gpu_peak_bytes,
            )
        known = [(s, m) for s, _, m in ordered if bound or s not in bounds]
        return cls(
            size=size,
            peak_memory_bytes=peak_memory_bytes,
            measured=measured,
            runtime=fit_power_law([(s, t) for s, t, _ in ordered]),
            memory=fit_power_law(known) if len(known) > 1 else None,
            peak_is_bound=bound,
            gpu_peak_bytes=gpu_peak_bytes,
        )

    def runtime_factor(self, size: float | None) -> Interval:
        """Return the ratio of the time at ``size`` to the time at the profile's own size; exactly 1
        for that size."""
        if size is None or self.size is None or size == self.size:
            return Interval(1.0, 1.0, 1.0)
        return self._ratio(self.runtime, size, self.size)

    @lru_cache(maxsize=4096)  # noqa: B019 - as for _ratio
    def memory_bytes(self, size: float | None = None) -> Interval | None:
        """Return the peak host memory at ``size`` (default: the profile's own size).

        Returns None where no peak was measured, or where memory at that size is unknown.
        """
        if self.peak_memory_bytes is None:
            return None
        margin = MEASURED_MARGIN if len(self.measured) > 1 else SINGLE_SIZE_MARGIN
        peak = self.peak_memory_bytes
        if size is None or self.size is None or size == self.size:
            low = 0.0 if self.peak_is_bound else peak / margin
            return Interval(low, peak, peak * margin)
        if self._memory_doubt(size) is not None:
            return None
        ratio = self._ratio(self.memory, size, self.size)
        low, mid, high = ratio.low * peak / margin, ratio.mid * peak, ratio.high * peak * margin
        return Interval(0.0 if self.peak_is_bound else low, mid, max(mid, high))

    @lru_cache(maxsize=4096)  # noqa: B019 - as for _ratio
    def gpu_memory_bytes(self, size: float | None = None) -> Interval | None:
        """Return the peak memory of all GPUs together at ``size``, which was measured at one size
        only.

        Returns None where no peak was measured, and beyond ``FURTHEST`` times the measured size.
        """
        peak = self.gpu_peak_bytes
        if peak is None:
            return None
        ratio = Interval(1.0, 1.0, 1.0)
        if size is not None and self.size is not None and size != self.size:
            if size > FURTHEST * self.size:
                return None
            ratio = self._ratio(None, size, self.size)
        return Interval(
            ratio.low * peak / SINGLE_SIZE_MARGIN,
            ratio.mid * peak,
            ratio.high * peak * SINGLE_SIZE_MARGIN,
        )

    def doubt(self, size: float | None) -> str | None:
        """Return a warning about the prediction at ``size``, for the user; None where there is
        none."""
        if size is None:
            return None
        if self.size is None:
            return (
                f"its pilot names no problem size, so size {size:g} changes neither time nor "
                "memory (berth pilot run --size or --sizes)"
            )
        return None if self.peak_memory_bytes is None else self._memory_doubt(size)

    def _memory_doubt(self, size: float) -> str | None:
        largest = max((*self.measured, self.size or 0.0))
        if size > FURTHEST * largest:
            return (
                f"memory at size {size:g} is not known: that is over {FURTHEST:g} times the "
                f"largest measured size, {largest:g}"
            )
        fitted_up_to = largest if self.memory is not None else self.size or 0.0
        if self.peak_is_bound and size > fitted_up_to:
            return (
                f"memory at size {size:g} is not known: at size {self.size:g} the program was too "
                "small to tell its peak"
            )
        return None

    # One decision needs the same ratio for every candidate platform, so the ratio is cached.
    @lru_cache(maxsize=4096)  # noqa: B019 - they are small, frozen values and few
    def _ratio(self, growth: PowerLaw | None, size: float, own: float) -> Interval:
        if not (math.isfinite(size) and size > 0):
            raise UsageError(f"{size} is not a problem size; it must be positive")
        if growth is None:
            low, mid, high = sorted((size / own) ** p for p in _UNKNOWN_EXPONENTS)
            return Interval(min(low, mid), mid, max(mid, high))
        mid = growth(size) / growth(own)
        nearest = min(self.measured, key=lambda s: abs(math.log(size / s)))
        inside = self.measured[0] <= size <= self.measured[-1]
        distance = 0.0 if inside else abs(math.log(size / nearest))
        widen = math.exp(2 * growth.misfit + SLOPE_UNCERTAINTY * distance)
        tolerance = 2 * growth.misfit if growth is self.memory else 0.0  # too little memory kills
        others = [] if inside else possible_values(growth, self.measured, size, tolerance)
        low = min([mid, *(value / growth(own) for value in others)])
        high = max([mid, *(value / growth(own) for value in others)])
        return Interval(low / widen, mid, high * widen)


class MemoryAtSizes(NamedTuple):
    """Memory of a program, each as a pair: at the profiled size, and at another size. None:
    unknown."""

    host: tuple[Interval | None, Interval | None]
    gpu: tuple[Interval | None, Interval | None]
    """Measured GPU memory; else the host memory, which is what GPU memory is estimated from for
    programs that ran on CPUs only."""


class Growth(NamedTuple):
    """The effect of another problem size on time and memory; the same on every platform."""

    time: Interval
    """Ratio of the time at this size to the time at the profiled size."""
    needs: MemoryAtSizes | None
    """The program's memory at the profiled size and at this size. None: no memory was measured, and
    predicted memory does not change with the size."""
    larger: bool = False
    """Whether this size is above the profiled size."""

    def runtime(self, as_profiled: Interval, launch_s: float = 0.0) -> Interval:
        """Return the time at this size on a platform, given the time at the profiled size there.

        ``launch_s``: the seconds of it that start parallel regions or GPU kernels. The predicted
        time keeps them, as another size changes how much each kernel does. The interval also covers
        that their number grows with the size, as a number of steps does.
        """
        grown = as_profiled.times(self.time)
        if not launch_s or self.time.low == self.time.high == 1.0:
            return grown
        low, mid, high = (
            min(launch_s, seconds) * (1 - factor) + seconds * factor
            for seconds, factor in zip(as_profiled, self.time, strict=True)
        )
        return Interval(min(low, grown.low), mid, max(high, grown.high))

    def memory(self, as_profiled: MemoryUse) -> MemoryUse:
        """Return the memory at this size on a platform, given the memory at the profiled size
        there.

        Memory that the platform adds (a GPU's context, for example) does not grow. A need is None
        where memory at this size is unknown.
        """
        held_in = None if self.larger else as_profiled.gpu_held_in_bytes
        if self.needs is None:
            return replace(as_profiled, gpu_held_in_bytes=held_in)
        host, gpu = self.needs.host, self.needs.gpu
        return MemoryUse(
            _grown(as_profiled.host_bytes, *host), _grown(as_profiled.gpu_bytes, *gpu), held_in
        )


def growth_to(sizes: SizeGrowth, size: float | None) -> Growth:
    """Return the effect of problem ``size`` (None: as profiled) on time and memory on every
    platform."""
    time = sizes.runtime_factor(size)
    if size is None:
        return Growth(time, None)
    host = sizes.memory_bytes(None), sizes.memory_bytes(size)
    gpu = host
    if sizes.gpu_peak_bytes is not None:
        gpu = sizes.gpu_memory_bytes(None), sizes.gpu_memory_bytes(size)
    needs = None if host[0] is gpu[0] is None else MemoryAtSizes(host, gpu)
    return Growth(time, needs, sizes.size is not None and size > sizes.size)


def _grown(own: Interval | None, old: Interval | None, new: Interval | None) -> Interval | None:
    """Return ``own`` memory with its part ``old`` (the program at the profiled size) replaced by
    ``new``; None: unknown."""
    if own is None or old is None:
        return own
    return None if new is None else own.moved(old, new)
