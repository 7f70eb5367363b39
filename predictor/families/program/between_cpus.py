"""A program's time on one core of another CPU: its own measured time, times how much faster the
cores are.

``log(t / t_reference) = core + SHARE_WEIGHT * (shares(program) - shares(typical program))``

- ``core``: log ratio of the speeds of one core on whole programs (``core_speed``), between that of
  integer and that of floating-point programs. A program with many mispredicted branches is like
  the integer programs.
- ``shares``: the program's time on the reference is split into time in main memory and caches and
  time in the core; each part changes by the ratio of the two platforms' roofline times. What a
  typical program gains by this is in ``core`` already.

``python -m lab cpus`` prints the errors beside those of plainer and of richer formulas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from berth.pilot.platform import CoreScore, Platform
from berth.predictor.core.arrays import Floats
from berth.predictor.families.program.amdahl import ThreadScaling
from berth.predictor.families.program.roofline import RooflineTimes, times
from berth.predictor.families.program.work import Work
from berth.predictor.hardware.ceilings import INSTRUCTIONS_AT_SCORE_1, Allocation, Ceilings
from berth.predictor.hardware.core_speed import (
    BENCHMARK_DEVIATION,
    benchmarked_log_ratio,
    core_score,
)

SHARE_WEIGHT = 0.5
"""How much of the change that the shares predict happens: the roofline's parts are rough."""
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
TYPICAL_PROGRAM = Work(
    instructions=1.0,
    loads=0.3,
    stores=0.12,
    access_bytes=3.2,
    store_bytes=1.0,
    flops_f64=0.1,
    flops_f32=0.0,
    int_ops=0.4,
    branches=0.15,
    mispredicts=0.003,
    read_misses=(0.015, 0.005, 0.001),
    write_misses=(0.004, 0.002, 0.0005),
    footprint_bytes=100e6,
    regions=None,
    atomics=None,
    complete=False,
)
"""Counts per instruction of a typical whole program on one core."""
TYPICAL_SLOWDOWN = 1.3
"""Measured time of a typical program over its roofline time."""


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
) -> CoreRatio | None:
    """Return the ratio of core speeds for a program; None: nothing but the rates tells that of
    ``platform``.

    ``mispredicts_per_instruction`` is None where they were not counted.
    """
    if home.signature.core_score is None or platform.signature.core_score is None:
        log_ratio = benchmarked_log_ratio(home.signature, platform.signature)
        if log_ratio is not None:
            return CoreRatio(log_ratio, BENCHMARK_DEVIATION, BENCHMARK_DEVIATION)
    theirs = core_score(platform)
    if theirs is None:
        return None
    ours = core_score(home) or _by_rates(home)
    if mispredicts_per_instruction is None:
        weight = 0.5
    else:
        per_thousand = 1e3 * mispredicts_per_instruction
        weight = per_thousand / (per_thousand + INTEGER_MISPREDICTS)
    log_ratio = weight * math.log(ours.integer / theirs.integer) + (1 - weight) * math.log(
        ours.floating_point / theirs.floating_point
    )
    return CoreRatio(log_ratio, math.hypot(ours.deviation, theirs.deviation), theirs.deviation)


def _by_rates(platform: Platform) -> CoreScore:
    rate = float(Ceilings.of([Allocation(platform, 1)]).instructions[0]) / INSTRUCTIONS_AT_SCORE_1
    return CoreScore(integer=rate, floating_point=rate, source="rates", deviation=UNKNOWN_DEVIATION)


@dataclass(frozen=True, slots=True)
class Shares:
    """Roofline seconds of a program's two parts, one entry per row of a table of platforms."""

    memory: Floats
    """Seconds in main memory and in the caches that cores share or miss."""
    core: Floats
    """Seconds of arithmetic, of first-level cache accesses and of mispredicted branches."""

    @classmethod
    def of(cls, roofs: RooflineTimes) -> Shares:
        """Return the parts of a program with these roofline times."""
        core = np.maximum(np.maximum(roofs.flops, roofs.instructions), roofs.l1) + roofs.branches
        return cls(np.maximum(np.maximum(roofs.l2, roofs.l3), roofs.dram), core)

    def log_ratio(self, own_s: float, home: int, target: int) -> float:
        """Return the log ratio of the program's time in row ``target`` to that in row ``home``.

        ``own_s`` is its measured time in row ``home`` in seconds. The time in memory is at most
        ``own_s``; what remains is time in the core.
        """
        share = min(1.0, float(self.memory[home]) / own_s)
        memory, core = (_ratio(part, home, target) for part in (self.memory, self.core))
        return math.log(share * memory + (1 - share) * core)


@dataclass(frozen=True, slots=True)
class TypicalShares:
    """The same of ``TYPICAL_PROGRAM``, with its time in each row per instruction."""

    shares: Shares
    own_s: Floats

    @classmethod
    def on(cls, table: Ceilings) -> TypicalShares:
        """Return the typical program's parts at all points of a table."""
        roofs = times(TYPICAL_PROGRAM, table, ThreadScaling(0.0, 1.0, measured=False))
        return cls(Shares.of(roofs), TYPICAL_SLOWDOWN * roofs.parallel)

    def log_ratio(self, home: int, target: int) -> float:
        """Return the log ratio of its time in row ``target`` to that in row ``home``."""
        return self.shares.log_ratio(float(self.own_s[home]), home, target)


def _ratio(seconds: Floats, home: int, target: int) -> float:
    ours, theirs = float(seconds[home]), float(seconds[target])
    return theirs / ours if ours > 0 and theirs > 0 else 1.0
