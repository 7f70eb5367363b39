"""Makes platforms and a calibrated bundle from measurements of nodes.

Some types of node have the same processor as the reference platform. For them a short benchmark's
error is as large as the difference between two nodes with one processor, and on a throttled node it
measures rates that no program reaches. Therefore the benchmark suite decides which rates such a
type gets: each kernel is left out in turn and predicted with the node's own rates and with the
reference's, and the rates with the smaller error are used.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from berth.pilot.bench import times_rates
from berth.pilot.errors import BerthError, UsageError
from berth.pilot.instruction_sets import Has, has
from berth.pilot.network.links import LinkMeasurement
from berth.pilot.node import NodeMeasurement
from berth.pilot.platform import MemoryLevel, Platform, Signature
from berth.predictor.core.arrays import Floats
from berth.predictor.core.prediction import Basis
from berth.predictor.families.program.bundle import Calibration, Manifest
from berth.predictor.families.program.estimate import CALIBRATED_KERNELS
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.families.program.suite import suite_profiles, timed
from berth.predictor.hardware.ceilings import Allocation
from berth.predictor.learning.programs.columns import kernel_and_size

APART = 1.15
"""Nodes whose times differ from their type's by more than this factor are reported."""
_RATES = (
    "int_ops_core_per_s",
    "scalar_chain_core_per_s",
    "branch_misses_core_per_s",
    "gather_core_per_s",
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A type of node, with the measurements of some of its nodes."""

    platform: Platform
    """The measured platform of the median node, under the name of the node type."""
    seconds: Mapping[str, float]
    """Median time in seconds over the nodes, by kernel and size."""
    nodes: Mapping[str, float]
    """Each node's times divided by the node type's times: geometric mean over the kernels."""

    @property
    def kernels(self) -> int:
        """Return the number of kernels with a measured time; several sizes of one kernel count
        once."""
        return len({kernel[0] for name in self.seconds if (kernel := kernel_and_size(name))})

    @property
    def apart(self) -> tuple[str, ...]:
        """Return the nodes whose times differ from their type's by more than ``APART``, the most
        different first."""
        far = [n for n, ratio in self.nodes.items() if max(ratio, 1 / ratio) > APART]
        return tuple(sorted(far, key=lambda n: -abs(math.log(self.nodes[n]))))


@dataclass(frozen=True, slots=True)
class FitQuality:
    """How accurately a bundle predicts a platform, over the kernels of the suite."""

    factor: float
    """Median over the kernels of the upper end of the predicted time divided by the lower end."""
    basis: Basis


def measured(
    old: Platform, results: Sequence[NodeMeasurement], links: Sequence[LinkMeasurement] = ()
) -> Measured:
    """Return the combined results of one node type's nodes; there must be at least one.

    ``links``: measurements of the link between two of the nodes, newest first.
    """
    names = [name for name in suite_profiles() if any(name in r.seconds for r in results)]
    seconds = {
        name: statistics.median(r.seconds[name] for r in results if name in r.seconds)
        for name in names
    }
    ratios = {
        r.node: math.exp(
            statistics.fmean(math.log(r.seconds[n] / seconds[n]) for n in names if n in r.seconds)
        )
        for r in results
    }
    middle = min(results, key=lambda r: (abs(math.log(ratios[r.node])), r.node))
    if middle.platform is None:
        raise UsageError(f"the result of {middle.node} has no benchmark")
    usable = {
        "name": old.name,
        "price_per_hour": old.price_per_hour,
        "power_w": old.power_w,
        "idle_power_w": old.idle_power_w,
        "interconnect": links[0].interconnect if links else old.interconnect,
    }
    return Measured(middle.platform.model_copy(update=usable), seconds, ratios)


def learnt(
    source: Path,
    kinds: Sequence[Measured],
    reference: str,
    platforms: Mapping[str, Platform],
    folder: Path,
    *,
    command: str,
) -> Manifest:
    """Write the bundle ``source``, calibrated for every node type, to ``folder``; return its
    manifest.

    The other kinds are predicted from ``reference``, which is one of them; ``reference`` itself is
    predicted from the machine on which the suite's counters were measured. Raises UsageError.
    """
    from berth.predictor.learning.programs.adapt import adapt  # noqa: PLC0415 - rarely needed

    known = {**platforms, **{kind.platform.name: kind.platform for kind in kinds}}
    home = next(kind for kind in kinds if kind.platform.name == reference)
    shipped = suite_profiles()
    with tempfile.TemporaryDirectory(prefix="berth-calibrate-") as temporary:
        bundle = source
        for number, kind in enumerate([home, *(k for k in kinds if k is not home)], 1):
            there = timed(kind.platform.name, kind.seconds)
            names = {profile.name for profile in there}
            if kind is home:
                seen = [profile for name, profile in shipped.items() if name in names]
            else:
                seen = [p for p in timed(reference, home.seconds) if p.name in names]
                names = {profile.name for profile in seen}
            last = number == len(kinds)
            out = folder if last else Path(temporary) / f"step-{number}"
            manifest = adapt(
                bundle,
                [*seen, *(p for p in there if p.name in names)],
                kind.platform,
                known,
                out,
                command=command,
                reference=None if kind is home else reference,
            )
            bundle = out
    return manifest


def qualities(
    bundle: Path,
    kinds: Mapping[str, Measured],
    reference: str,
    platforms: Mapping[str, Platform],
) -> dict[str, FitQuality]:
    """Return how accurately a bundle predicts the suite on one core or GPU of each platform.

    ``reference``: the measured kind of which the suite's times are taken. Nothing where the bundle
    cannot be read.
    """
    points = [Allocation(platform, 1) for platform in platforms.values()]
    known = platforms.get(reference)
    spreads: defaultdict[str, list[tuple[float, Basis]]] = defaultdict(list)
    try:
        predictor = Predictor.load(bundle)
        for profile in timed(reference, kinds[reference].seconds):
            for point in predictor.predict_points(profile, points, reference=known):
                ratio = point.runtime_s.high / point.runtime_s.low
                spreads[point.platform].append((ratio, point.basis))
    except BerthError:
        return {}
    return {
        name: FitQuality(
            statistics.median(f for f, _ in rows), max((b for _, b in rows), key=lambda b: b.rank)
        )
        for name, rows in spreads.items()
    }


def enough(kind: Measured) -> bool:
    """Return whether enough kernels were measured for the node type to get its own prediction
    interval."""
    return kind.kernels >= CALIBRATED_KERNELS


def with_better_ceilings(
    kinds: Mapping[str, Measured],
    reference: str,
    platforms: Mapping[str, Platform],
    prior: Calibration,
) -> dict[str, Measured]:
    """Return the node types by name, each with the per-core rates of ``reference`` where these
    predict the suite better than the type's own rates."""
    known = {**platforms, **{name: kind.platform for name, kind in kinds.items()}}
    return {name: _better(kind, kinds[reference], known, prior) for name, kind in kinds.items()}


def _better(
    kind: Measured, home: Measured, known: Mapping[str, Platform], prior: Calibration
) -> Measured:
    if kind is home or not _same_processor(kind.platform, home.platform):
        return kind
    borrowed = kind.platform.model_copy(
        update={"signature": as_at_home(kind.platform.signature, home.platform.signature)}
    )
    own, other = (
        _left_out(kind, home, platform, known, prior) for platform in (kind.platform, borrowed)
    )
    if len(own) and other.mean() < own.mean() and np.median(other) < np.median(own):
        return replace(kind, platform=borrowed)
    return kind


def as_at_home(own: Signature, home: Signature) -> Signature:
    """Return the signature ``own`` with the per-core rates of ``home``; the scaling over cores is
    kept.

    The rates are scaled by each node's share of its processor.
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


def _same_processor(first: Platform, other: Platform) -> bool:
    return (
        first.processor is not None
        and first.processor == other.processor
        and not any(
            has(mine.instruction_sets, name) is Has.NO
            for mine, theirs in ((first, other), (other, first))
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
    """Return absolute log errors of the suite's kernels, each left out in turn; empty with too few
    kernels."""
    from berth.predictor.learning.programs.adapt import adapted  # noqa: PLC0415 - rarely needed
    from berth.predictor.learning.programs.columns import pair_columns, pairs_of  # noqa: PLC0415

    there = timed(platform.name, kind.seconds)
    names = {profile.name for profile in there}
    seen = [p for p in timed(home.platform.name, home.seconds) if p.name in names]
    names = {profile.name for profile in seen}
    profiles = [*seen, *(p for p in there if p.name in names)]
    every = {**known, platform.name: platform}
    data = pair_columns(pairs_of(profiles, platform, every), platform, every)
    return adapted(data, prior).left_out
