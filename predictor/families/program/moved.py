"""A program's time on a CPU without labels: its own measured time, moved from CPU to CPU.

The measured time is scaled by the roofline to one core of the reference, moved to one core of the
other CPU (``between_cpus``) and from there to its number of cores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.program.between_cpus import (
    OWN_PROGRAM_DEVIATION,
    PROGRAM_DEVIATION,
    SHARE_WEIGHT,
    UNKNOWN_DEVIATION,
    CoreRatio,
    Shares,
    core_ratio,
)
from berth.predictor.families.program.bundle import OwnTime
from berth.predictor.families.program.reading import ProgramReading, RateTable
from berth.predictor.hardware.ceilings import Allocation

MEASURED_SCALING_DEVIATION = 0.05
"""Standard error of the log time on a CPU without labels, for each doubling of cores."""
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
class MovedTime:
    """The log of seconds on a CPU without labels, with its standard errors."""

    log_time: float
    deviation: float
    own_deviation: float
    """Standard error that the program's times on other CPUs do not share."""
    cache_width: float = 0.0
    """Half width in log of what caches that hold the data on one of two platforms may change."""

    def corrected(
        self, own_time: OwnTime, reading: ProgramReading, times_as_many_cores: float
    ) -> MovedTime:
        """Return the time corrected by labels on this CPU, measured with another number of
        cores."""
        scaling = scaling_deviation(reading, abs(math.log2(times_as_many_cores)))
        own = own_time.deviation * OWN_PROGRAM_DEVIATION / PROGRAM_DEVIATION
        return MovedTime(
            self.log_time + own_time.log_factor,
            math.hypot(own_time.deviation, own_time.standard_error, scaling),
            math.hypot(own, own_time.standard_error, OWN_SCALING * scaling),
            self.cache_width,
        )


def scaling_deviation(reading: ProgramReading, doublings: float) -> float:
    """Return the standard error of the log time by scaling to other numbers of cores."""
    step = MEASURED_SCALING_DEVIATION if reading.scaling.measured else GUESSED_SCALING_DEVIATION
    return min(MOST_SCALING_DEVIATION, step * doublings)


def moved_between_cpus(
    reading: ProgramReading,
    shares: Shares,
    layout: RateTable,
    index: int,
    share_weight: float = SHARE_WEIGHT,
) -> MovedTime:
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
    cache_width = 0.0
    if reading.counted:
        own_s = math.exp(one_core)
        core += share_weight * (shares.log_ratio(own_s, ours, theirs) - typical)
    log_time = one_core + core
    if not reading.counted:
        rates = layout.table.dram_bytes[[layout.reference, index]]
        log_time = _without_counters(reading, home, target, core, rates)
        cache_width = _cache_width(reading, layout, index)
    elif target.units > 1:
        rows = (ours, theirs, index)
        times_s = math.exp(one_core), math.exp(log_time)
        log_time = math.log(_on_all_cores(reading, target.units, *times_s, rows))
    doublings = abs(math.log2(target.units)) + abs(math.log2(home.units))
    scaling = scaling_deviation(reading, doublings)
    unknown = UNKNOWN_DEVIATION if layout.assumed else 0.0
    return MovedTime(
        log_time,
        math.hypot(PROGRAM_DEVIATION, ratio.deviation, unknown, scaling),
        math.hypot(OWN_PROGRAM_DEVIATION, ratio.own_deviation, OWN_SCALING * scaling),
        cache_width,
    )


def _without_counters(
    reading: ProgramReading, home: Allocation, target: Allocation, core: float, rates: Floats
) -> float:
    """Return the log of seconds at ``target`` of a program of which only the time is known.

    ``core``: log ratio of the times on one core; ``rates``: bandwidths of the cores in use at home
    and there. On several cores of both CPUs it is mixed with the
    ratio of their bandwidths, in equal parts on whole nodes: that is what programs between whole
    nodes follow when nobody knows how much memory traffic they have.
    """
    counts = reading.scaling.usable(np.array([float(home.units), float(target.units)]))
    by_cores = np.log(reading.scaling.stretch(counts) / counts)
    by_core = core + float(by_cores[1] - by_cores[0])
    by_memory = math.log(float(rates[0] / rates[1]))
    used = [(each.units - 1) / max(1, each.platform.cores - 1) for each in (home, target)]
    weight = WHOLE_NODE_MEMORY * max(used) if min(used) > 0 else 0.0
    moved = (1 - weight) * by_core + weight * by_memory
    return math.log(reading.run.runtime_s) + moved


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
