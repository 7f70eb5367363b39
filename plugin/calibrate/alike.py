"""Kinds of nodes with the reference's processor: whose ceilings explain their kernels better?

A benchmark of a few seconds errs by as much as two nodes of one processor differ, and where a node
is throttled it finds rates that no program sees. The suite decides: each kernel in turn is left out
and predicted with the node's own ceilings, and with the reference's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from berth.pilot.bench import times_rates
from berth.pilot.instruction_sets import Has, has
from berth.pilot.platform import MemoryLevel, Platform, Signature
from berth.plugin.calibrate.learning import Measured
from berth.predictor.core.arrays import Floats
from berth.predictor.families.program.bundle import Calibration
from berth.predictor.learning.programs.suite import timed

_RATES = (
    "int_ops_core_per_s",
    "scalar_chain_core_per_s",
    "branch_misses_core_per_s",
    "gather_core_per_s",
)


def with_better_ceilings(
    kinds: Mapping[str, Measured],
    reference: str,
    platforms: Mapping[str, Platform],
    prior: Calibration,
) -> dict[str, Measured]:
    """The kinds, with the rates of a core of ``reference`` where these tell more of the suite."""
    known = {**platforms, **{name: one.platform for name, one in kinds.items()}}
    return {name: _better(one, kinds[reference], known, prior) for name, one in kinds.items()}


def _better(
    kind: Measured, home: Measured, known: Mapping[str, Platform], prior: Calibration
) -> Measured:
    if kind is home or not _same_processor(kind.platform, home.platform):
        return kind
    borrowed = kind.platform.model_copy(
        update={"signature": as_at_home(kind.platform.signature, home.platform.signature)}
    )
    own, other = (_left_out(kind, home, one, known, prior) for one in (kind.platform, borrowed))
    if len(own) and other.mean() < own.mean() and np.median(other) < np.median(own):
        return replace(kind, platform=borrowed)
    return kind


def as_at_home(own: Signature, home: Signature) -> Signature:
    """``own`` with the rates of a core that ``home`` has; how they add up over cores stays.

    Each node's are those that its share of a processor leaves.
    """
    home = times_rates(home, (own.processor_share or 1.0) / (home.processor_share or 1.0))

    def moved(total: float, ours: float | None, theirs: float | None) -> float:
        return total * theirs / ours if ours and theirs else total

    levels = {level.level: level for level in home.memory}
    dram, there = own.level("dram"), levels["dram"]
    bandwidth = 1.0
    if dram is not None and dram.core_bytes_per_s and there.core_bytes_per_s:
        bandwidth = there.core_bytes_per_s / dram.core_bytes_per_s
    changed: dict[str, object] = {
        "memory": tuple(_level(level, levels.get(level.level)) for level in own.memory),
        "thread_scaling": tuple((n, rate * bandwidth) for n, rate in own.thread_scaling),
        "measured_on": f"{own.measured_on}; a core's rates: {home.measured_on}"[:1000],
    }
    for precision in ("flops_f64", "flops_f32"):
        core, total = f"{precision}_core_per_s", f"{precision}_per_s"
        ours, theirs = getattr(own, core), getattr(home, core)
        changed[total] = moved(getattr(own, total), ours, theirs)
        changed[core] = theirs or ours
    for name in _RATES:
        changed[name] = getattr(home, name) or getattr(own, name)
    return own.model_copy(update=changed)


def _level(own: MemoryLevel, home: MemoryLevel | None) -> MemoryLevel:
    if home is None or not own.core_bytes_per_s or not home.core_bytes_per_s:
        return own
    ratio = home.core_bytes_per_s / own.core_bytes_per_s
    return own.model_copy(
        update={
            "core_bytes_per_s": home.core_bytes_per_s,
            "total_bytes_per_s": own.total_bytes_per_s * ratio,
            "latency_s": home.latency_s or own.latency_s,
        }
    )


def _same_processor(one: Platform, other: Platform) -> bool:
    return (
        one.processor is not None
        and one.processor == other.processor
        and not any(
            has(mine.instruction_sets, name) is Has.NO
            for mine, theirs in ((one, other), (other, one))
            for name in theirs.instruction_sets
        )
    )


def _left_out(
    kind: Measured,
    home: Measured,
    platform: Platform,
    known: Mapping[str, Platform],
    prior: Calibration,
) -> Floats:
    """Absolute log errors of the suite's kernels, each without itself; none of too few."""
    from berth.predictor.learning.programs.adapt import adapted  # noqa: PLC0415 - needs the extra
    from berth.predictor.learning.programs.pairs import pair_columns, pairs_of  # noqa: PLC0415

    there = timed(platform.name, kind.seconds)
    names = {profile.name for profile in there}
    seen = [p for p in timed(home.platform.name, home.seconds) if p.name in names]
    names = {profile.name for profile in seen}
    profiles = [*seen, *(p for p in there if p.name in names)]
    every = {**known, platform.name: platform}
    data = pair_columns(pairs_of(profiles, platform, every), platform, every)
    return adapted(data, prior, 0).left_out
