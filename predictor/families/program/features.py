"""Features of a program: the inputs of the learnt correction and of the range check.

All features are ratios or logs, so a program of one hour and a kernel of one millisecond with the
same mix of operations have the same features. NaN stands for a value that the pilot run could not
measure; the regression trees were trained with such values. Every bundle stores the columns in the
order given here.
"""

from __future__ import annotations

import math

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.program.amdahl import ThreadScaling
from berth.predictor.families.program.roofline import RooflineTimes
from berth.predictor.families.program.work import LINE_BYTES, Work

WORK_FEATURES = (
    "flops_f64_ratio", "flops_f32_ratio", "int_arith_ratio", "load_ratio", "store_ratio",
    "branch_ratio", "branch_miss_rate", "l1_miss_rate", "l2_miss_rate", "llc_miss_rate",
    "log_flops_per_dram_byte", "log_flops_per_l1_byte", "log_instructions_per_dram_byte",
    "log_footprint_bytes", "log_atomics_ratio", "log_instructions_per_region",
    "log_stores_per_region", "parallel_slowdown",
)  # fmt: skip
"""Features of the program itself, independent of platforms; the range check uses these only."""

PLATFORM_FEATURES = (
    "log_reference_efficiency", "log_reference_seconds_per_region", "reference_memory_share",
    "reference_compute_share", "target_flops_share", "target_instructions_share", "target_l2_share",
    "target_dram_share", "target_launch_share", "target_atomics_share", "log_roofline_ratio",
)  # fmt: skip
"""Features from the roofline times on the reference platform and on the target platform."""

FEATURES = WORK_FEATURES + PLATFORM_FEATURES

_FLOOR = 1e-9
"""Least ratio that is distinguished from 0: smaller ratios get this value before the log is
taken."""


def work_features(work: Work, scaling: ThreadScaling) -> list[float]:
    """Return the program's features that depend on no platform (``WORK_FEATURES``), in their
    order."""
    total = work.instructions
    accesses = max(work.accesses, 1.0)
    near, middle, far = work.misses
    dram = max(far, 1.0) * LINE_BYTES
    atomics = math.nan if work.atomics is None else _log(work.contended_atomics / total)
    region = math.nan if not work.regions else math.log(total / work.regions)
    stored = math.nan if not work.regions else math.log((work.stores + 1) / work.regions)
    return [
        work.flops_f64 / total,
        work.flops_f32 / total,
        work.int_ops / total,
        work.loads / total,
        work.stores / total,
        work.branches / total,
        work.mispredicts / max(work.branches, 1.0),
        near / accesses,
        middle / accesses,
        far / accesses,
        _log(work.flops / dram),
        _log(work.flops / max(work.access_bytes, 1.0)),
        _log(total / dram),
        math.log(work.footprint_bytes),
        atomics,
        region,
        stored,
        scaling.serial_share if scaling.measured else math.nan,
    ]


def platform_features(
    work: Work, runtime_s: float, times: RooflineTimes, home: int, target: int
) -> list[float]:
    """Return the features from the measured time and roofline times on the reference (row ``home``
    of the table) and on row ``target``.

    The order is that of ``PLATFORM_FEATURES``.
    """
    roof, total = float(times.total[home]), float(times.total[target])
    region = math.nan if not work.regions else math.log(runtime_s / work.regions)
    return [
        math.log(runtime_s / roof),
        region,
        max(float(times.dram[home]), float(times.l3[home])) / roof,
        max(float(times.flops[home]), float(times.instructions[home])) / roof,
        float(times.flops[target]) / total,
        float(times.instructions[target]) / total,
        float(times.l2[target]) / total,
        float(times.dram[target]) / total,
        float(times.launches[target]) / total,
        float(times.atomics[target]) / total,
        math.log(total / roof),
    ]


def feature_row(
    work: Work,
    scaling: ThreadScaling,
    runtime_s: float,
    times: RooflineTimes,
    rows: tuple[int, int],
) -> Floats:
    """Return all inputs of the correction model, in the order of ``FEATURES``.

    ``rows``: those of the reference and of the target in the table of peak rates.
    """
    own = work_features(work, scaling)
    return np.array([*own, *platform_features(work, runtime_s, times, *rows)])


def _log(value: float) -> float:
    """Return the log of a ratio, which is first raised to at least ``_FLOOR``."""
    return math.log(max(value, _FLOOR))
