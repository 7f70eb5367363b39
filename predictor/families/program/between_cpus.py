"""A program's time on another CPU: its own measured time, times how much faster the cores are.

On one core it changes by the ratio of the cores' speeds on whole programs (``core_speed``): between
that of integer and that of floating-point programs, as a program with many mispredicted branches is
like the integer programs. On several cores, what main memory takes changes by the bandwidths.

``python -m lab cpus`` prints the errors beside those of plainer formulas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from berth.pilot.platform import CoreScore, Platform
from berth.predictor.families.program.bundle import OwnTime
from berth.predictor.families.program.reading import ProgramReading, RateTable
from berth.predictor.hardware.ceilings import INSTRUCTIONS_AT_SCORE_1, Allocation, Ceilings
from berth.predictor.hardware.core_speed import (
    BENCHMARK_DEVIATION,
    benchmarked_log_ratio,
    core_score,
)

INTEGER_MISPREDICTS = 1.0
"""Mispredicted branches per 1,000 instructions of a program half-way between the integer and the
floating-point programs."""
PROGRAM_DEVIATION = 0.20
"""Standard deviation of the log ratio of a whole program's times on two CPUs around the ratio of
their scores."""
OWN_PROGRAM_DEVIATION = 0.17
"""The part of ``PROGRAM_DEVIATION`` that is not common to a program's times on all other CPUs: how
unusually fast or slow it was on the reference is common to them."""
UNKNOWN_DEVIATION = 0.37
"""Standard error of the log ratio of core speeds where nothing but rates tells them."""
MEASURED_SCALING_DEVIATION = 0.05
"""Standard error of the log time on a CPU, for each doubling of cores."""
GUESSED_SCALING_DEVIATION = 0.1
"""The same standard error, if the program was run with only one number of threads."""
MOST_SCALING_DEVIATION = 0.6
"""Largest standard error by the number of cores: a node is limited by its bandwidth or cores."""
OWN_SCALING = 0.5
"""Share of that error that CPUs with as many cores do not share: the program's serial part is the
same on all."""
WHOLE_NODE_MEMORY = 0.5
"""Weight of the ratio of bandwidths, in log, for a program without counters on whole nodes: neither
it nor the ratio of the cores is known to be the right one."""
_TINY_S = 1e-15


@dataclass(frozen=True, slots=True)
class CoreRatio:
    """How much longer a core of a platform takes for a program than one of the reference."""

    log_ratio: float
    """Natural log of time there over time on the reference."""
    deviation: float
    """Standard error of ``log_ratio`` from the core's speed alone, without the program's own."""
    own_deviation: float
    """The same without the speed of the reference's core, which all platforms share."""


def core_ratio(
    home: Platform, platform: Platform, mispredicts_per_instruction: float | None
) -> CoreRatio:
    """Return the ratio of core speeds for a program.

    ``mispredicts_per_instruction`` is None where they were not counted.
    """
    theirs = core_score(platform)
    ours = _by_rates(home) if theirs is None else core_score(home) or _by_rates(home)
    theirs = theirs or _by_rates(platform)
    deviation = min(math.hypot(ours.deviation, theirs.deviation), UNKNOWN_DEVIATION)
    if None in (home.signature.core_score, platform.signature.core_score):
        log_ratio = benchmarked_log_ratio(home.signature, platform.signature)
        better = deviation > BENCHMARK_DEVIATION or compared_by_kernels(home, platform)
        if log_ratio is not None and better:
            return CoreRatio(log_ratio, BENCHMARK_DEVIATION, BENCHMARK_DEVIATION)
    if mispredicts_per_instruction is None:
        weight = 0.5
    else:
        per_thousand = 1e3 * mispredicts_per_instruction
        weight = per_thousand / (per_thousand + INTEGER_MISPREDICTS)
    log_ratio = weight * math.log(ours.integer / theirs.integer) + (1 - weight) * math.log(
        ours.floating_point / theirs.floating_point
    )
    return CoreRatio(log_ratio, deviation, theirs.deviation)


def compared_by_kernels(home: Platform, platform: Platform) -> bool:
    """Return whether kernels compare two CPUs better than published scores do: nodes of one
    processor, or that grant only a share of its time."""
    shares = {each.signature.processor_share or 1.0 for each in (home, platform)}
    return home.processor == platform.processor is not None or shares != {1.0}


def _by_rates(platform: Platform) -> CoreScore:
    rate = float(Ceilings.of([Allocation(platform, 1)]).instructions[0]) / INSTRUCTIONS_AT_SCORE_1
    return CoreScore(integer=rate, floating_point=rate, source="rates", deviation=UNKNOWN_DEVIATION)


@dataclass(frozen=True, slots=True)
class MovedTime:
    """The log of seconds on another CPU, with its standard errors."""

    log_time: float
    deviation: float
    own_deviation: float
    """Standard error that the program's times on other CPUs do not share."""
    cache_width: float = 0.0
    """Half width in log of what caches may change that hold the data on one of two platforms."""

    def corrected(
        self, own_time: OwnTime, reading: ProgramReading, times_as_many_cores: float
    ) -> MovedTime:
        """Return the time corrected by labels on this CPU; the program runs or ran with
        ``times_as_many_cores`` as they."""
        scaling = _scaling_deviation(reading, abs(math.log2(times_as_many_cores)))
        own = own_time.deviation * OWN_PROGRAM_DEVIATION / PROGRAM_DEVIATION
        return replace(
            self,
            log_time=self.log_time + own_time.log_factor,
            deviation=math.hypot(own_time.deviation, own_time.standard_error, scaling),
            own_deviation=math.hypot(own, own_time.standard_error, OWN_SCALING * scaling),
        )


def _scaling_deviation(reading: ProgramReading, doublings: float) -> float:
    """Return the standard error of the log time by scaling to other numbers of cores."""
    step = MEASURED_SCALING_DEVIATION if reading.scaling.measured else GUESSED_SCALING_DEVIATION
    return min(MOST_SCALING_DEVIATION, step * doublings)


def moved_between_cpus(reading: ProgramReading, layout: RateTable, index: int) -> MovedTime:
    """Return the log of seconds on a CPU from the program's own time and the speeds of the cores,
    without any label."""
    home, target = layout.table.points[layout.reference], layout.table.points[index]
    ratio = core_ratio(home.platform, target.platform, reading.mispredicts)
    cache_width = 0.0
    if not reading.counted:
        log_time = _without_counters(reading, layout, index, ratio.log_ratio)
        cache_width = _cache_width(reading, layout, index)
    else:
        ours, logs = layout.reference_core, reading.log_roofs
        own = math.log(reading.runtime_s) + float(logs[ours] - logs[layout.reference])
        log_time = own + ratio.log_ratio
        if target.units > 1:
            rows = (ours, layout.one_core[target.platform.name], index)
            times_s = math.exp(own), math.exp(log_time)
            log_time = math.log(_on_all_cores(reading, target.units, *times_s, rows))
    doublings = abs(math.log2(target.units)) + abs(math.log2(home.units))
    scaling = _scaling_deviation(reading, doublings)
    unknown = UNKNOWN_DEVIATION if layout.assumed else 0.0
    return MovedTime(
        log_time,
        math.hypot(PROGRAM_DEVIATION, ratio.deviation, unknown, scaling),
        math.hypot(OWN_PROGRAM_DEVIATION, ratio.own_deviation, OWN_SCALING * scaling),
        cache_width,
    )


def _without_counters(reading: ProgramReading, layout: RateTable, index: int, core: float) -> float:
    """Return the log of seconds in row ``index`` of a program of which only the time is known.

    ``core``: log ratio of the times on one core. On several cores of both CPUs it is mixed with the
    ratio of their bandwidths, in equal parts on whole nodes: that is what programs between whole
    nodes follow when nobody knows how much memory traffic they have.
    """
    table = layout.table
    home, target = table.points[layout.reference], table.points[index]
    counts = reading.scaling.usable(np.array([float(home.units), float(target.units)]))
    by_cores = np.log(reading.scaling.stretch(counts) / counts)
    by_core = core + float(by_cores[1] - by_cores[0])
    by_memory = math.log(float(table.dram_bytes[layout.reference] / table.dram_bytes[index]))
    used = [(each.units - 1) / max(1, each.platform.cores - 1) for each in (home, target)]
    weight = WHOLE_NODE_MEMORY * max(used) if min(used) > 0 else 0.0
    return math.log(reading.runtime_s) + (1 - weight) * by_core + weight * by_memory


def _cache_width(reading: ProgramReading, layout: RateTable, index: int) -> float:
    """Return the half width in log of what it may change that the pilot's data fit into the last
    caches of only one of the two platforms; 0: they fit into both or neither, or on one core."""
    peak, table = reading.profile.peak_memory_bytes, layout.table
    rows = (layout.reference, index)
    if peak is None or min(table.points[row].units for row in rows) == 1:
        return 0.0
    fitting = [row for row in rows if peak <= table.l3_capacity[row]]
    if len(fitting) != 1:
        return 0.0
    (row,) = fitting
    faster = math.log(float(table.l3_bytes[row] / table.dram_bytes[row]))
    return WHOLE_NODE_MEMORY * max(0.0, faster)


def _on_all_cores(
    reading: ProgramReading, units: int, own_s: float, one_core_s: float, rows: tuple[int, int, int]
) -> float:
    """Return the seconds on ``units`` cores of a platform, on one of which it is ``one_core_s``.

    ``own_s`` is the time on one core of the reference. The part of it that main memory takes
    becomes the time at the bandwidth of all cores, the rest is shared among the cores; both follow
    the program's serial share. ``rows``: table rows of one core of the reference, one core of the
    platform, and of all the cores.
    """
    home, one_core, target = rows
    roofs, scaling = reading.roofs, reading.scaling
    cores = scaling.usable(np.array(float(units)))
    stretch = float(scaling.stretch(cores)) / float(cores)
    share = min(1.0, float(roofs.dram[home]) / own_s)
    serial = min(1.0, scaling.serial_share)
    memory = serial * float(roofs.dram[one_core]) + (1 - serial) * float(roofs.dram[target])
    memory *= min(1.0, own_s / max(float(roofs.dram[home]), _TINY_S))
    together = (1 - share) * one_core_s * stretch + memory + float(roofs.fixed[target])
    return min(together, one_core_s * max(1.0, stretch) + float(roofs.fixed[target]))
