"""Estimates of a program's time: log time, interval width and basis for each platform and core
count.

The basis says how a time was obtained:

- on the platform that the profile was measured on, the measured time is used;
- on a labelled platform (the bundle has measured times of its training programs there), the
  calibrated roofline time is multiplied by the learnt correction; at other core counts than the
  labelled one the basis is ``scaled``;
- on any other platform, the calibrated roofline time is used alone.

The less was measured on a platform, the wider the interval, by the factors below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.pilot.catalogue import REQUIRED
from berth.pilot.profile import Profile
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import NORMAL_90, difficulty
from berth.predictor.core.prediction import Basis
from berth.predictor.families.program.between_cpus import (
    OWN_PROGRAM_DEVIATION,
    PROGRAM_DEVIATION,
    SHARE_WEIGHT,
    UNKNOWN_DEVIATION,
    CoreRatio,
    Shares,
    TypicalShares,
    core_ratio,
)
from berth.predictor.families.program.bundle import Bundle, Calibration, Labelled, OwnTime
from berth.predictor.families.program.features import Reference, feature_row, work_features
from berth.predictor.families.program.roofline import Times, thread_scaling, times
from berth.predictor.families.program.work import ThreadScaling, Work, work_of
from berth.predictor.hardware.ceilings import Ceilings, Point

NEW_PLATFORM_WIDENING = 1.5
"""Factor on the log interval for a CPU without measured times, because its bias is unknown."""
NEW_GPU_WIDTH = 0.83
"""Factor on the log interval for a GPU without measured times, over that of the V100's own kernels.

With it 90 % of kernels are inside on the V100, the H100 and the MI300A together, each card weighing
the same (`python -m lab unseen-gpus`).
"""
SCALED_WIDENING = 0.2
"""Relative widening of the log interval for each doubling between labelled and requested cores."""
GUESSED_SCALING_WIDENING = 0.5
"""As ``SCALED_WIDENING``, for a program that was run with only one number of threads."""
PARTIAL_WIDENING = 1.25
"""Factor on the log interval if the counters cover only a part of the run."""
OTHER_REFERENCE_WIDENING = 1.25
"""Factor on the log interval if the profile and the training profiles are from different platforms.
"""
MEASURED_SCALING_DEVIATION = 0.05
"""Standard error of the log time on a CPU without labels, for each doubling of cores."""
GUESSED_SCALING_DEVIATION = 0.1
"""The same for a program that was run with only one number of threads."""
MOST_SCALING_DEVIATION = 0.6
"""Largest standard error by the number of cores: a node is limited by its bandwidth or cores."""
_TINY_S = 1e-15
OWN_SCALING = 0.5
"""Share of that error that CPUs with as many cores do not share: the program's serial part is the
same on all."""
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
class Estimate:
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


@dataclass(frozen=True, slots=True)
class Layout:
    """A table of peak rates: requested platforms first, then the reference, then the bundle's
    platforms.

    Each row is a platform with a number of cores or GPUs (a point).
    """

    table: Ceilings
    count: int
    """Number of requested points, which are the first rows of the table."""
    reference: int
    """Table row of the platform that the profile was measured on, with the cores of that run."""
    reference_core: int
    """Table row of one core of that platform."""
    assumed: bool
    """Whether that platform is unknown, so that one of the bundle's is taken in its place."""
    labelled: dict[str, int]
    """Table row by labelled platform, at the core count of its measured times."""
    at_home: frozenset[str]
    """Names of the requested platforms with the hardware that the profile was measured on."""
    labels_of: dict[str, str]
    """Name of the labelled platform with the same hardware, by requested platform."""
    one_core: dict[str, int]
    """Table row of one core, by name of each requested CPU platform."""
    typical: TypicalShares
    """How a typical program's time splits into core and memory, by table row."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A profile with its work, thread scaling and roofline times, as the estimator needs it."""

    profile: Profile
    work: Work
    scaling: ThreadScaling
    run: Reference
    roofs: Times
    log_roofs: Floats
    log_efficiency: float
    """Log of the measured time on the reference over the roofline time there."""
    counted: bool = True
    """False: the counters are those of another program, only the time is this program's."""
    mispredicts: float | None = None
    """Mispredicted branches per instruction where ``counted`` is False; None: not counted."""

    @property
    def work_features(self) -> Floats:
        """Return the ``WORK_FEATURES`` of the program, which the range check compares with
        training."""
        return np.array(work_features(self.work, self.scaling))


def read(profile: Profile, runtime_s: float, layout: Layout, typical: float) -> Reading:
    """Return a profile with its work and with roofline times on all platforms of ``layout``.

    ``runtime_s`` is the measured time in seconds. If the counters cover only a part of the run,
    they are scaled to the whole run: the program then has the efficiency ``exp(typical)``, the
    training set's mean. Raises UsageError where required counters are missing.
    """
    home = None if layout.assumed else layout.table.points[layout.reference].platform
    work = work_of(profile)
    scaling = thread_scaling(profile, work, home)
    run = Reference(runtime_s, layout.reference)
    roofs = times(work, layout.table, scaling)
    if not work.complete:
        wanted = math.exp(math.log(runtime_s) - typical)
        work = work.scaled(wanted / float(roofs.total[layout.reference]))
        roofs = times(work, layout.table, scaling)
    logs = np.log(roofs.total)
    efficiency = math.log(runtime_s) - float(logs[layout.reference])
    return Reading(profile, work, scaling, run, roofs, logs, efficiency)


def log_times(readings: Sequence[Reading], layout: Layout, bundle: Bundle) -> Floats:
    """Return predicted logs of seconds (readings x points) of several variants of one profile.

    The values equal ``Estimate.log_time`` from ``estimate``. All readings must have the same
    profile and thread scaling; each ONNX model runs once for all of them.
    """
    residuals = _residuals(readings, layout, bundle)
    return np.array(
        [
            [
                each.log_time
                for each in _estimates(
                    reading, layout, bundle, {n: float(of[row]) for n, of in residuals.items()}
                )
            ]
            for row, reading in enumerate(readings)
        ]
    )


def _own_time(entry: Labelled | None, layout: Layout, point: Point) -> OwnTime | None:
    """Return how labels correct a prediction from CPU to CPU; None: they do not."""
    if entry is None or layout.assumed or not between_cpus(layout, point):
        return None
    return entry.own_time


def between_cpus(layout: Layout, point: Point) -> bool:
    """Return whether a point is of a CPU and the profile was measured on a CPU."""
    return not point.gpus and not layout.table.points[layout.reference].gpus


@dataclass(frozen=True, slots=True)
class Moved:
    """The log of seconds on a CPU without labels, with its standard errors."""

    log_time: float
    deviation: float
    own_deviation: float
    """Standard error that the program's times on other CPUs do not share."""

    def corrected(self, own_time: OwnTime, reading: Reading, times_as_many_cores: float) -> Moved:
        """Return the time corrected by labels on this CPU, measured with another number of
        cores."""
        scaling = scaling_deviation(reading, abs(math.log2(times_as_many_cores)))
        own = own_time.deviation * OWN_PROGRAM_DEVIATION / PROGRAM_DEVIATION
        return Moved(
            self.log_time + own_time.log_factor,
            math.hypot(own_time.deviation, own_time.standard_error, scaling),
            math.hypot(own, own_time.standard_error, OWN_SCALING * scaling),
        )


def scaling_deviation(reading: Reading, doublings: float) -> float:
    """Return the standard error of the log time by scaling to other numbers of cores."""
    step = MEASURED_SCALING_DEVIATION if reading.scaling.measured else GUESSED_SCALING_DEVIATION
    return min(MOST_SCALING_DEVIATION, step * doublings)


def _by_own_time(moved: Moved, counting: float, basis: Basis) -> Estimate:
    return Estimate(
        moved.log_time,
        max(LEAST_LOG_WIDTH, math.hypot(NORMAL_90 * moved.deviation, counting)),
        basis,
        NORMAL_90 * moved.own_deviation,
    )


def moved_between_cpus(
    reading: Reading,
    shares: Shares,
    layout: Layout,
    index: int,
    share_weight: float = SHARE_WEIGHT,
) -> Moved:
    """Return the log of seconds on a CPU without labels.

    The measured time is scaled by the roofline to one core of the reference, moved to one core of
    the other CPU (``between_cpus``) and from there to its number of cores.
    """
    home, target = layout.table.points[layout.reference], layout.table.points[index]
    ours, theirs = layout.reference_core, layout.one_core[target.platform.name]
    logs = reading.log_roofs
    one_core = math.log(reading.run.runtime_s) + float(logs[ours] - logs[layout.reference])
    work = reading.work
    per_instruction = (
        work.mispredicts / work.instructions if reading.counted else reading.mispredicts
    )
    typical = layout.typical.log_ratio(ours, theirs)
    ratio = core_ratio(home.platform, target.platform, per_instruction)
    ratio = ratio or CoreRatio(typical, UNKNOWN_DEVIATION, UNKNOWN_DEVIATION)
    core = ratio.log_ratio
    if reading.counted:
        core += share_weight * (shares.log_ratio(math.exp(one_core), ours, theirs) - typical)
    log_time = one_core + core
    if target.units > 1:
        rows = (ours, theirs, index)
        times_s = math.exp(one_core), math.exp(log_time)
        log_time = math.log(_on_all_cores(reading, target.units, *times_s, rows))
    doublings = abs(math.log2(target.units)) + abs(math.log2(home.units))
    scaling = scaling_deviation(reading, doublings)
    unknown = UNKNOWN_DEVIATION if layout.assumed else 0.0
    return Moved(
        log_time,
        math.hypot(PROGRAM_DEVIATION, ratio.deviation, unknown, scaling),
        math.hypot(OWN_PROGRAM_DEVIATION, ratio.own_deviation, OWN_SCALING * scaling),
    )


def _on_all_cores(
    reading: Reading, units: int, own_s: float, one_core_s: float, rows: tuple[int, int, int]
) -> float:
    """Return the seconds on ``units`` cores of a platform, on one of which it is ``one_core_s``.

    ``own_s`` is the time on one core of the reference. The part of it that main memory takes
    becomes the time at the bandwidth of all cores, the rest is shared among the cores; both follow
    the program's serial share. ``rows``: table rows of one core of the reference, one core of the
    platform, and of all the cores.
    """
    home, one, target = rows
    roofs, scaling = reading.roofs, reading.scaling
    cores = scaling.usable(np.array(float(units)))
    stretch = float(scaling.stretch(cores)) / float(cores)
    share = min(1.0, float(roofs.dram[home]) / own_s)
    serial = min(1.0, scaling.serial_share)
    memory = serial * float(roofs.dram[one]) + (1 - serial) * float(roofs.dram[target])
    memory *= min(1.0, own_s / max(float(roofs.dram[home]), _TINY_S))
    together = (1 - share) * one_core_s * stretch + memory + float(roofs.fixed[target])
    return min(together, one_core_s * max(1.0, stretch) + float(roofs.fixed[target]))


def _features(reading: Reading, index: int) -> Floats:
    """Return the input row of the correction model, for the platform at ``index`` in the table."""
    return feature_row(reading.work, reading.scaling, reading.run, reading.roofs, index)


def estimate(reading: Reading, layout: Layout, bundle: Bundle) -> list[Estimate]:
    """Return the program's log time, interval width and basis on each requested platform and core
    count."""
    residuals = _residuals([reading], layout, bundle)
    return _estimates(reading, layout, bundle, {n: float(of[0]) for n, of in residuals.items()})


def _estimates(
    reading: Reading, layout: Layout, bundle: Bundle, residuals: Mapping[str, float]
) -> list[Estimate]:
    """Return what ``estimate`` does, given the learnt log correction by labelled platform."""
    profile = reading.profile
    doubling = SCALED_WIDENING if reading.scaling.measured else GUESSED_SCALING_WIDENING
    partial = 1.0 if reading.work.complete else PARTIAL_WIDENING
    odd = bundle.range_check.widening(reading.work_features)

    def widening(reference: str, odd: float) -> float:
        elsewhere = 1.0 if profile.platform == reference else OTHER_REFERENCE_WIDENING
        return odd * partial * elsewhere

    general = bundle.manifest.reference
    measured = _measured_log_times(profile)
    entries = {entry.platform: entry for entry in bundle.manifest.labelled}
    difficulties = _difficulties(reading, layout, bundle, residuals)
    counting = NORMAL_90 * counting_error(profile)
    shares = Shares.of(reading.roofs)
    estimates = []
    for index, point in enumerate(layout.table.points[: layout.count]):
        name = layout.labels_of.get(point.platform.name, "")
        if point.platform.name in layout.at_home:
            log_roof = float(reading.log_roofs[index])
            estimates.append(_at_home(reading, point, measured, log_roof, doubling))
        elif own_time := _own_time(entries.get(name), layout, point):
            entry = entries[name]
            moved = moved_between_cpus(
                reading, shares, layout, index, own_time.share_weight
            ).corrected(own_time, reading, point.units / entry.cores)
            apart = abs(math.log2(point.units / entry.cores))
            estimates.append(_by_own_time(moved, counting, _basis(entry, apart)))
        elif name in residuals:
            entry = entries[name]
            own = bundle.own_ranges.get(name)
            own_odd = odd if own is None else own.widening(reading.work_features)
            apart = abs(math.log2(point.units / (entry.cores or entry.gpus)))
            estimates.append(
                Estimate(
                    _calibrated(entry.prior, reading, index, residuals[name]),
                    entry.score_quantile
                    * difficulties[name]
                    * widening(entry.reference or general, own_odd)
                    * (1 + doubling * apart),
                    _basis(entry, apart),
                )
            )
        elif between_cpus(layout, point):
            moved = moved_between_cpus(reading, shares, layout, index)
            estimates.append(_by_own_time(moved, counting, Basis.PRIOR))
        else:
            kind = "gpu" if point.gpus else "cpu"
            prior = bundle.manifest.priors[kind]
            apart = 0.0 if point.gpus else math.log2(point.units)
            hard = difficulties.get(kind, UNKNOWN_DIFFICULTY)
            spread = prior.score_quantile * hard * widening(general, odd) * (1 + doubling * apart)
            spread *= NEW_GPU_WIDTH if point.gpus else NEW_PLATFORM_WIDENING
            width = math.hypot(spread, counting)
            log_time = _calibrated(prior, reading, index, 0.0)
            estimates.append(Estimate(log_time, width, Basis.PRIOR))
    return [_with_noise(each, profile) for each in estimates]


def _with_noise(estimated: Estimate, profile: Profile) -> Estimate:
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


MISS_S = {"l1": 4e-9, "l2": 20e-9, "llc": 100e-9, "branch": 10e-9, "instructions": 0.5e-9,
          "loads": 1e-9, "stores": 1e-9}  # fmt: skip
"""Upper estimates of the seconds that a miss, instruction or access costs, by the beginning of its
counter's name."""


def counting_error(profile: Profile) -> float:
    """Return the relative standard error of the predicted time by those of its counted work.

    The work costs at most ``MISS_S`` each, and all of it together at most the processor time: a
    stream's misses overlap. The result is at most the largest relative error of a counter; 0: no
    counter has a standard error.
    """
    doubtful = {
        name: m
        for name, m in profile.counters.items()
        if (name in REQUIRED or name.endswith("_misses")) and m.standard_error and m.value
    }
    relative = {name: (m.standard_error or 0.0) / (m.value or 1.0) for name, m in doubtful.items()}
    largest = max(relative.values(), default=0.0)
    busy_s = profile.value("cpu_time_s") or 0.0
    if not busy_s:
        return largest
    costs_s = {
        name: MISS_S.get(name.split("_")[0], 0.0) * (m.value or 0.0) for name, m in doubtful.items()
    }
    error_s = math.hypot(*(costs_s[name] * relative[name] for name in doubtful))
    return min(largest, error_s / max([busy_s, *costs_s.values()]))


def _basis(entry: Labelled, apart: float) -> Basis:
    """Return the basis of a prediction on a platform with measured times of training programs.

    ``apart`` is the distance from the core count of these times, in doublings.
    """
    if entry.kernels < CALIBRATED_KERNELS:
        return Basis.PRIOR
    return Basis.CALIBRATED if apart == 0 else Basis.SCALED


def _residuals(readings: Sequence[Reading], layout: Layout, bundle: Bundle) -> dict[str, Floats]:
    """Return the log corrections [readings] that the models predict, by labelled platform; empty if
    the reference is unknown."""
    if layout.assumed:
        return {}
    return {
        name: bundle.residual(name, np.array([_features(each, index) for each in readings]))
        for name, index in layout.labelled.items()
    }


def _difficulties(
    reading: Reading, layout: Layout, bundle: Bundle, residuals: Mapping[str, float]
) -> dict[str, float]:
    """Return the difficulty (factor on the log interval) by platform, and for ``cpu`` and ``gpu``.

    The keys ``cpu`` and ``gpu`` serve platforms without measured times.
    """
    difficulties = {}
    for entry in bundle.manifest.labelled:
        if entry.platform not in residuals:
            continue
        index = layout.labelled[entry.platform]
        corrected = _calibrated(entry.prior, reading, index, residuals[entry.platform])
        hard = difficulty(corrected - _calibrated(entry.prior, reading, index, 0.0))
        difficulties[entry.platform] = difficulties["gpu" if entry.gpus else "cpu"] = hard
    return difficulties


def _calibrated(prior: Calibration, reading: Reading, index: int, residual: float) -> float:
    """Return the predicted log of seconds on a platform: roofline time with calibration and
    correction.

    See ``bundle.Calibration`` for the formula.
    """
    roofs = reading.roofs
    stretch = prior.bias + residual + prior.carry * reading.log_efficiency
    fixed = float(roofs.fixed[index]) + prior.reduction_s * float(roofs.reductions[index])
    return math.log(fixed + float(roofs.parallel[index]) * math.exp(stretch))


def _measured_log_times(profile: Profile) -> dict[int, float]:
    """Return the log of the measured seconds by number of cores, on the profile's own platform."""
    log_times_by_cores = {p.threads: math.log(p.runtime_s) for p in profile.scaling}
    if profile.runtime is not None:
        declared = profile.runs_on.threads * profile.runs_on.ranks
        log_times_by_cores[declared] = math.log(profile.runtime.median_s)
    return log_times_by_cores


def _at_home(
    reading: Reading, point: Point, measured: dict[int, float], log_roof: float, doubling: float
) -> Estimate:
    """Return the estimated log time on the platform that the profile was measured on.

    At a measured core count this is the measured time; at other counts it is scaled by the roofline
    from the run, and ``doubling`` widens the interval per doubling from the nearest measured count.
    """
    runtime = reading.profile.runtime
    noisy = runtime is None or runtime.noise is not None  # then the noise has the spread in it
    spread = 0.0 if runtime is None or noisy else runtime.spread_s / runtime.median_s
    width = max(LEAST_LOG_WIDTH, 2 * spread)
    if point.units in measured:
        return Estimate(measured[point.units], width, Basis.MEASURED)
    nearest = min(measured, key=lambda cores: abs(math.log(cores / point.units)))
    apart = abs(math.log2(point.units / nearest))
    moved = math.log(reading.run.runtime_s) + log_roof - float(reading.log_roofs[reading.run.index])
    return Estimate(moved, width + doubling * apart, Basis.SCALED)
