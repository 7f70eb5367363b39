"""Estimates of a program's time: log time, interval width and basis for each platform and core
count.

The basis says how a time was obtained:

- on the platform that the profile was measured on, the measured time is used;
- from CPU to CPU it is the program's own time by the speeds of the cores (``between_cpus``), with
  the CPU's factor where programs were timed there; only a loop like the bundle's training kernels
  takes what was learnt of them on a CPU where they were timed;
- to and from GPUs it is the calibrated roofline time, with the learnt correction where the training
  kernels were timed; at other core counts than theirs the basis is ``scaled``.

The less was measured on a platform, the wider the interval, by the factors below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from berth.pilot.profile import Profile
from berth.predictor.core.intervals import NORMAL_90, difficulty
from berth.predictor.core.prediction import Basis
from berth.predictor.families.program.amdahl import busy_cores
from berth.predictor.families.program.between_cpus import moved_between_cpus
from berth.predictor.families.program.bundle import Calibration, Labelled, ProgramBundle
from berth.predictor.families.program.doubts import WAITS_FACTOR, waiting_share
from berth.predictor.families.program.features import feature_row
from berth.predictor.families.program.reading import ProgramReading, RateTable
from berth.predictor.hardware.ceilings import Allocation

BETWEEN_GPUS_LOG_WIDTH = math.log(8.0)
"""Half width of the log time of a program without counters on another GPU: as far as the reference
kernels spread, whose counters are those of no such program."""
CPU_AND_GPU_LOG_WIDTH = math.log(30.0)
"""The same from a CPU to a GPU and back."""
NEW_PLATFORM_WIDENING = 1.5
"""Factor on the log interval for a CPU without measured times, because its bias is unknown."""
SCALED_WIDENING = 0.2
"""Relative widening of the log interval for each doubling between labelled and requested cores."""
GUESSED_SCALING_WIDENING = 0.5
"""As ``SCALED_WIDENING``, for a program that was run with only one number of threads."""
UNKNOWN_DIFFICULTY = 1.0
"""Difficulty (factor on the log interval) where no labelled platform gives a value.

A value needs the profile's reference platform, and a labelled platform of the same kind (CPU, GPU).
"""
CALIBRATED_KERNELS = 9
"""Least number of training kernels timed on a labelled platform for the basis CALIBRATED.

With fewer kernels the basis is PRIOR.
"""
LEAST_LOG_WIDTH = math.log(1.03)
"""Least half width of an interval in log time: repeated runs differ by about 3 % at best."""
LAUNCH_NOISE = 0.15
"""Standard deviation of the log time of a launch of several ranks, also on a quiet machine: that of
ten launches of each of two programs by ``mpirun`` on two cores was 0.14 and 0.24."""


@dataclass(frozen=True, slots=True)
class LogEstimate:
    """The predicted log time on a platform and core count, with the half width of its 90 %
    interval.

    ``log_time`` is the log of seconds; ``log_width`` is the half width in log.
    ``own_log_width`` is that of the error which the program's times on other platforms do not
    share; None: unknown.
    """

    log_time: float
    log_width: float
    basis: Basis
    own_log_width: float | None = None


def estimate(
    reading: ProgramReading, layout: RateTable, bundle: ProgramBundle
) -> list[LogEstimate]:
    """Return the program's log time, interval width and basis on each requested platform and core
    count."""
    return _Program(reading, layout, bundle, _residuals(reading, layout, bundle)).estimates()


class _Program:
    """A reading, with what its estimates at all points share."""

    def __init__(
        self,
        reading: ProgramReading,
        layout: RateTable,
        bundle: ProgramBundle,
        residuals: Mapping[str, float],
    ) -> None:
        """``residuals``: the learnt log correction by labelled platform."""
        self._reading, self._layout, self._bundle = reading, layout, bundle
        self._residuals = residuals
        self._labelled = {entry.platform: entry for entry in bundle.manifest.labelled}
        self._difficulties = _difficulties(reading, layout, bundle, residuals)
        home = layout.table.points[layout.reference]
        ran_on = home.units
        self._waits = waiting_share(reading.profile, None if layout.assumed else home.platform)
        self._measured = _measured_log_times(reading.profile, ran_on)
        self._doubling = SCALED_WIDENING if reading.scaling.measured else GUESSED_SCALING_WIDENING
        runtime = reading.profile.runtime
        noisy = runtime is None or runtime.noise is not None  # then the noise has the spread in it
        spread = 0.0 if runtime is None or noisy else runtime.spread_s / runtime.median_s
        self._run_log_width = max(LEAST_LOG_WIDTH, 2 * spread)

    def estimates(self) -> list[LogEstimate]:
        points = self._layout.table.points[: self._layout.count]
        return [
            _with_noise(self._at(index, point), self._reading.profile)
            for index, point in enumerate(points)
        ]

    def _at(self, index: int, point: Allocation) -> LogEstimate:
        layout = self._layout
        if point.platform.name in layout.at_home:
            return self._at_home(index, point)
        entry = self._labelled.get(layout.labels_of.get(point.platform.name, ""))
        if not layout.is_between_cpus(point):
            return self._with_gpu(index, point, None if layout.assumed else entry)
        moved = moved_between_cpus(self._reading, layout, index)
        labelled_on = 1 if entry is None else entry.cores
        if not layout.assumed:
            target = point.platform.name if entry is None else entry.platform
            own_time = self._bundle.manifest.own_time_between(layout.home, target)
            if own_time is not None:
                most = max(point.units, layout.table.points[layout.reference].units)
                moved = moved.corrected(own_time, self._reading, most / labelled_on)
        basis = Basis.PRIOR
        if entry is not None and not layout.assumed:
            basis = _basis(entry, abs(math.log2(point.units / labelled_on)))
        native = LogEstimate(
            moved.log_time,
            math.hypot(NORMAL_90 * moved.deviation, moved.cache_width, self._run_log_width),
            basis,
            NORMAL_90 * moved.own_deviation,
        )
        if entry is not None and not layout.assumed and self._is_loop_of(entry):
            # Counts choose within what the program's own time leaves open.
            there = self._labelled_there(index, point, entry)
            low, high = (native.log_time + side * native.log_width for side in (-1, 1))
            native = replace(there, log_time=min(max(there.log_time, low), high))
        return self._with_waits(native) if self._waits else native

    def _with_waits(self, moved: LogEstimate) -> LogEstimate:
        """Return the estimate of a program that mostly waits: only what it computes is ``moved``;
        the sum's errors are those of its parts, in seconds."""
        runtime_s, own = self._reading.runtime_s, moved.own_log_width or 0.0
        waits_s = self._waits * runtime_s
        computes_s = (1 - self._waits) * math.exp(moved.log_time)
        total_s = waits_s + computes_s
        errors_s = math.log(WAITS_FACTOR) * waits_s, moved.log_width * computes_s, own * computes_s
        return LogEstimate(
            math.log(total_s),
            math.hypot(errors_s[0], errors_s[1], self._run_log_width * total_s) / total_s,
            moved.basis,
            math.hypot(errors_s[0], errors_s[2]) / total_s,
        )

    def _is_loop_of(self, entry: Labelled) -> bool:
        """Return whether the program is like the training kernels, and enough of these were timed
        on the labelled CPU."""
        enough = entry.prior is not None and entry.kernels >= CALIBRATED_KERNELS
        near = self._bundle.range_check.is_near(self._reading.work_features)
        return enough and self._reading.counted and near

    def _with_gpu(self, index: int, point: Allocation, entry: Labelled | None) -> LogEstimate:
        """Return the estimate of a program to, from or between GPUs."""
        if self._reading.counted and entry is not None and entry.prior is not None:
            return self._labelled_there(index, point, entry)
        if self._reading.counted:
            return self._by_roofline(index, point)
        table, home = self._layout.table, self._layout.reference
        ratio = float(table.dram_bytes[home] / table.dram_bytes[index])
        both = point.gpus and table.points[home].gpus
        width = BETWEEN_GPUS_LOG_WIDTH if both else CPU_AND_GPU_LOG_WIDTH
        return LogEstimate(math.log(self._reading.runtime_s * ratio), width, Basis.PRIOR)

    def _at_home(self, index: int, point: Allocation) -> LogEstimate:
        """Return the estimate on the platform that the profile was measured on.

        At a measured core count this is the measured time; at other counts it is scaled by the
        roofline from the run, and the interval widens per doubling from the nearest measured count,
        up to what the run's own processor time allows.
        """
        reading, measured, width = self._reading, self._measured, self._run_log_width
        if point.units in measured:
            return LogEstimate(measured[point.units], width, Basis.MEASURED)
        nearest = min(measured, key=lambda cores: abs(math.log(cores / point.units)))
        apart = abs(math.log2(point.units / nearest))
        roof, own_roof = reading.log_roofs[index], reading.log_roofs[self._layout.reference]
        log_time = math.log(reading.runtime_s) + float(roof) - float(own_roof)
        least, most = self._log_bounds(measured[nearest], nearest, point.units)
        log_time = min(max(log_time, least), most)
        farthest = max(log_time - least, most - log_time)
        return LogEstimate(log_time, width + min(self._doubling * apart, farthest), Basis.SCALED)

    def _log_bounds(self, log_time: float, cores: int, units: int) -> tuple[float, float]:
        """Return the least and the largest log time on ``units`` cores of the platform where the
        program took ``log_time`` on ``cores``: more cores at most share the work, fewer take no
        longer than the processor time that it spent."""
        if units > cores:
            return log_time - math.log(units / cores), log_time
        home = self._layout.table.points[self._layout.reference].platform
        busy = busy_cores(self._reading.profile, None if self._layout.assumed else home) or cores
        return log_time, log_time + math.log(max(1.0, busy / units))

    def _labelled_there(self, index: int, point: Allocation, entry: Labelled) -> LogEstimate:
        name, prior = entry.platform, entry.prior
        assert prior is not None  # noqa: S101 - callers look
        apart = abs(math.log2(point.units / (entry.cores or entry.gpus)))
        return LogEstimate(
            _calibrated(prior, self._reading, index, self._residuals[name]),
            entry.score_quantile * self._difficulties[name] * (1 + self._doubling * apart),
            _basis(entry, apart),
        )

    def _by_roofline(self, index: int, point: Allocation) -> LogEstimate:
        kind = "gpu" if point.gpus else "cpu"
        prior = self._bundle.manifest.priors[kind]
        spread = prior.score_quantile * self._difficulties.get(kind, UNKNOWN_DIFFICULTY)
        if not point.gpus:
            spread *= NEW_PLATFORM_WIDENING * (1 + self._doubling * math.log2(point.units))
        return LogEstimate(_calibrated(prior, self._reading, index, 0.0), spread, Basis.PRIOR)


def _with_noise(estimated: LogEstimate, profile: Profile) -> LogEstimate:
    """Return an estimate whose interval has the noise of the pilot's time: on a busy machine, and
    of parallel launches, whose ranks wait for the slowest, on a quiet one as well.

    All platforms share that error: it is not in the ratios of their times.
    """
    noise = None if profile.runtime is None else profile.runtime.noise
    if noise is None and profile.runs_on.ranks > 1:
        noise = LAUNCH_NOISE
    if noise is None:
        return estimated
    own = estimated.own_log_width
    return replace(
        estimated,
        log_width=math.hypot(estimated.log_width, NORMAL_90 * noise),
        own_log_width=estimated.log_width if own is None else own,
    )


def _basis(entry: Labelled, apart: float) -> Basis:
    """Return the basis of a prediction on a platform with measured times of training programs.

    ``apart`` is the distance from the core count of these times, in doublings.
    """
    if entry.kernels < CALIBRATED_KERNELS:
        return Basis.PRIOR
    return Basis.CALIBRATED if apart == 0 else Basis.SCALED


def _residuals(
    reading: ProgramReading, layout: RateTable, bundle: ProgramBundle
) -> dict[str, float]:
    if layout.assumed or not reading.counted:
        return {}
    r = reading
    rows = {
        name: feature_row(r.work, r.scaling, r.runtime_s, r.roofs, (layout.reference, index))
        for name, index in layout.labelled.items()
    }
    return {name: float(bundle.residual(name, row[None, :])[0]) for name, row in rows.items()}


def _difficulties(
    reading: ProgramReading,
    layout: RateTable,
    bundle: ProgramBundle,
    residuals: Mapping[str, float],
) -> dict[str, float]:
    """Return the difficulty (factor on the log interval) by platform, and for ``cpu`` and ``gpu``.

    The keys ``cpu`` and ``gpu`` serve platforms without measured times.
    """
    difficulties = {}
    for entry in bundle.manifest.labelled:
        if entry.platform not in residuals or entry.prior is None:
            continue
        index = layout.labelled[entry.platform]
        corrected = _calibrated(entry.prior, reading, index, residuals[entry.platform])
        hard = difficulty(corrected - _calibrated(entry.prior, reading, index, 0.0))
        difficulties[entry.platform] = difficulties["gpu" if entry.gpus else "cpu"] = hard
    return difficulties


def _calibrated(prior: Calibration, reading: ProgramReading, index: int, residual: float) -> float:
    """Return the predicted log of seconds in a row of the table, by the calibrated roofline."""
    roofs, row = reading.roofs, slice(index, index + 1)
    parts = roofs.fixed[row], roofs.parallel[row], roofs.reductions[row]
    return float(prior.log_time(*parts, reading.log_efficiency, residual)[0])


def _measured_log_times(profile: Profile, ran_on: int) -> dict[int, float]:
    """Return the log of the measured seconds by number of cores, on the profile's own platform;
    ``ran_on``: those of the main run."""
    log_times_by_cores = {p.threads: math.log(p.runtime_s) for p in profile.scaling}
    if profile.one_thread_s is not None:
        log_times_by_cores[1] = math.log(profile.one_thread_s)
    if profile.runtime is not None:
        log_times_by_cores[ran_on] = math.log(profile.runtime.median_s)
    return log_times_by_cores
