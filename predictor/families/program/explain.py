"""Explanations of a program's speedup on a platform, by counters and in sentences.

An effect is the Shapley value (``attribution``) of a group of inputs on the log speedup. The inputs
are the program's counters per instruction, its memory footprint, and its efficiency on the
reference platform (measured time over roofline time). The baseline of each input is its median over
the bundle's training kernels. Variants of the program, with some inputs set to the baseline, are
predicted by the same code as the program, so baseline and effects multiply to the speedup that
Berth prints. The bound is the largest component of the roofline time on the platform.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.arrays import Floats
from berth.predictor.core.prediction import Bound
from berth.predictor.families.program.attribution import Attribution, attribute
from berth.predictor.families.program.bundle import ProgramBundle
from berth.predictor.families.program.estimate import log_times
from berth.predictor.families.program.features import WORK_FEATURES, Reference
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.families.program.reading import ProgramReading, RateTable
from berth.predictor.families.program.roofline import times
from berth.predictor.families.program.work import COUNTS, WORD_BYTES, Levels, Work
from berth.predictor.hardware.ceilings import Allocation

SHOWN = 3
"""Largest number of effects that a sentence names."""
LEAST_EFFECT = 0.01
"""Least effect that a sentence names, as a log: 1 %."""

LIMITS = {
    "flops": (Bound.COMPUTE, "floating-point operations"),
    "instructions": (Bound.COMPUTE, "issuing instructions"),
    "l1": (Bound.COMPUTE, "first-level cache traffic"),
    "l2": (Bound.MEMORY, "second-level cache traffic"),
    "l3": (Bound.MEMORY, "last-level cache traffic"),
    "dram": (Bound.MEMORY, "main-memory traffic"),
    "branches": (Bound.LATENCY, "mispredicted branches"),
    "atomics": (Bound.LATENCY, "contended atomic updates"),
    "scattered": (Bound.LATENCY, "atomic updates of many addresses"),
    "launches": (Bound.LAUNCH, "starting parallel regions or kernels"),
    "serial": (Bound.SERIAL, "its serial part"),
}
"""Bound and printed name of each component of the roofline time."""


@dataclass(frozen=True, slots=True)
class CounterEffect:
    """The effect of one group of counters on a predicted speedup."""

    name: str
    counters: tuple[str, ...]
    factor: float
    """Factor on the speedup, compared with this group's median over the training kernels.

    Above 1, this group of counters makes the speedup larger.
    """

    @property
    def shown(self) -> str:
        """Return the factor as text, for example ``x1.72``, ``x24`` or ``x1/140``."""
        if self.factor < 0.1:
            return f"x1/{1 / self.factor:.3g}"
        return f"x{self.factor:.2f}" if self.factor < 10 else f"x{self.factor:.3g}"


@dataclass(frozen=True, slots=True)
class SpeedupExplanation:
    """Explanation of a speedup on one platform: the typical speedup times the factors of all
    effects."""

    platform: str
    speedup: float
    typical_speedup: float
    """Speedup of a program with as many instructions and the training kernels' median counters."""
    bound: Bound
    limit: str
    """Printed name of the component that takes most of the time on the platform."""
    limit_share: float
    """Share of the largest component in the roofline time, 0 to 1."""
    effects: tuple[CounterEffect, ...]
    """All effects, those with the largest change of the speedup (up or down) first."""
    at_home: bool
    """Whether the profile was measured on this platform, so that its own run gives the time."""
    shares: dict[str, float]
    """Share of each component in the roofline time; overlapping components sum to more than 1."""

    @property
    def largest(self) -> tuple[CounterEffect, ...]:
        """Return the effects that a sentence names: at least 1 %, at most three, largest first."""
        return tuple(e for e in self.effects if abs(math.log(e.factor)) >= LEAST_EFFECT)[:SHOWN]

    def sentence(self) -> str:
        """Return the speedup, its bound and its largest effects as one or two sentences."""
        speedup_there = (
            f"{self.speedup:.3g}x on {self.platform}: {self.bound.value}-bound there "
            f"({100 * self.limit_share:.0f} % of the roofline's time is {self.limit})."
        )
        if self.at_home:
            return f"{speedup_there} Its own run tells the time, so no counter moves it."
        moved = ", ".join(f"{e.name} ({e.shown})" for e in self.largest)
        why = f"moved most by {moved}" if moved else "no counter moves it by more than 1 %"
        return f"{speedup_there} A typical program gets {self.typical_speedup:.3g}x; {why}."


def explain(
    predictor: Predictor,
    profile: Profile,
    points: Sequence[Allocation],
    *,
    reference: Platform | None = None,
) -> list[SpeedupExplanation]:
    """Return the explanation of a profile's speedup at each point (platform and core count), in
    order.

    ``reference`` is the platform that the profile was measured on. Raises UsageError for a profile
    without run time or without required counters.
    """
    layout = predictor.layout(profile, points, reference)
    reading = predictor.read(profile, layout)
    game = Game(reading, layout, predictor.bundle)
    attribution = attribute(game.log_speedups, game.row, game.typical, game.groups)
    return [
        _explanation(
            point, reading, index, attribution, at_home=point.platform.name in layout.at_home
        )
        for index, point in enumerate(points)
    ]


def largest_first(effects: Iterable[CounterEffect]) -> tuple[CounterEffect, ...]:
    """Return the effects sorted by how much they change the speedup, up or down."""
    return tuple(sorted(effects, key=lambda e: -abs(math.log(e.factor))))


def _explanation(
    point: Allocation,
    reading: ProgramReading,
    index: int,
    attribution: Attribution,
    *,
    at_home: bool,
) -> SpeedupExplanation:
    roofs = reading.roofs
    total = float(roofs.total[index])
    shares = {name: float(getattr(roofs, name)[index]) / total for name in LIMITS}
    limit = max(shares, key=shares.__getitem__)
    # A GPU has no L3 cache: traffic beyond its L2 cache goes to its memory.
    bound, words = LIMITS["dram" if limit == "l3" and point.platform.is_gpu else limit]
    effects = [
        CounterEffect(name, counters, math.exp(float(effect)))
        for (name, counters, _), effect in zip(GROUPS, attribution.effects[:, index], strict=True)
    ]
    return SpeedupExplanation(
        platform=point.platform.name,
        speedup=math.exp(float(attribution.value[index])),
        typical_speedup=math.exp(float(attribution.base[index])),
        bound=bound,
        limit=words,
        limit_share=shares[limit],
        effects=largest_first(effects),
        at_home=at_home,
        shares=shares,
    )


GROUPS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "floating-point operations",
        ("fp64_ops", "fp32_ops"),
        ("flops_f64", "flops_f32"),
    ),
    (
        "integer operations and branches",
        ("int_ops", "branches", "branch_misses"),
        ("int_ops", "branches", "mispredicts"),
    ),
    (
        "loads and stores",
        ("loads", "stores", "load_bytes", "store_bytes"),
        ("loads", "stores", "load_bytes", "store_bytes"),
    ),
    (
        "cache misses",
        ("l1_load_misses", "l1_store_misses", "l2_load_misses", "l2_store_misses"),
        ("near_reads", "near_writes", "middle_reads", "middle_writes"),
    ),
    (
        "main-memory traffic",
        ("llc_load_misses", "llc_store_misses"),
        ("far_reads", "far_writes"),
    ),
    ("memory footprint", ("peak_memory_bytes",), ("footprint_bytes",)),
    ("parallel regions", ("parallel_regions", "gpu_kernels"), ("regions",)),
    ("atomic updates", ("atomic_ops",), ("atomics",)),
    ("efficiency on the reference", ("runtime",), ("log_efficiency",)),
)
"""Each group's printed name, its counters in a Profile, and its columns in a row of inputs."""

COLUMNS = tuple(column for _, _, columns in GROUPS for column in columns)
"""Names of the inputs, in the order of a row's columns."""
_AT = {name: index for index, name in enumerate(COLUMNS)}
_COUNTED = tuple(name for name in COUNTS if name in COLUMNS)
"""Inputs that are a field of ``Work`` divided by the number of instructions."""


class Game:
    """A program as a row of inputs, and the function from such rows to predicted log speedups.

    Shapley values are computed of this function. Counts in a row are per instruction.
    """

    def __init__(self, reading: ProgramReading, layout: RateTable, bundle: ProgramBundle) -> None:
        self._reading, self._layout, self._bundle = reading, layout, bundle
        self.row = _row(reading.work, reading.log_efficiency)
        typical = _typical(bundle, reading.work)
        # Counters that the pilot could not measure stay unknown and have no effect.
        self.typical = np.where(np.isnan(self.row), self.row, typical)
        self.groups = [[_AT[column] for column in columns] for _, _, columns in GROUPS]

    def log_speedups(self, rows: Floats) -> Floats:
        """Return the log speedups over the reference (rows x points) of programs with these
        inputs."""
        readings = [self._moved(row) for row in rows]
        own = np.array([math.log(reading.run.runtime_s) for reading in readings])[:, None]
        # On the profile's own hardware the predictions are measured times and change with ``own``.
        points = self._layout.table.points[: self._layout.count]
        is_home = np.array([point.platform.name in self._layout.at_home for point in points])
        shift = np.where(is_home, own - math.log(self._reading.run.runtime_s), 0.0)
        return np.asarray(own - log_times(readings, self._layout, self._bundle) - shift)

    def _moved(self, row: Floats) -> ProgramReading:
        """Return the profile's reading with the program's inputs replaced by those of ``row``."""
        reading, layout = self._reading, self._layout
        work = _work(row, reading.work)
        roofs = times(work, layout.table, reading.scaling)
        logs = np.log(roofs.total)
        efficiency = float(row[_AT["log_efficiency"]])
        log_time = float(logs[layout.reference]) + efficiency
        return replace(
            reading,
            work=work,
            run=Reference(math.exp(log_time), layout.reference),
            roofs=roofs,
            log_roofs=logs,
            log_efficiency=efficiency,
        )


def _row(work: Work, log_efficiency: float) -> Floats:
    """Return the model inputs of a program (counts per instruction) as a row; NaN: unknown."""
    total = work.instructions
    near, middle, far = work.read_misses
    near_w, middle_w, far_w = work.write_misses
    values = {name: getattr(work, name) / total for name in _COUNTED} | {
        "load_bytes": (work.access_bytes - work.store_bytes) / total,
        "near_reads": near / total,
        "near_writes": near_w / total,
        "middle_reads": middle / total,
        "middle_writes": middle_w / total,
        "far_reads": far / total,
        "far_writes": far_w / total,
        "footprint_bytes": work.footprint_bytes,
        "regions": math.nan if work.regions is None else work.regions / total,
        "atomics": math.nan if work.atomics is None else work.atomics / total,
        "log_efficiency": log_efficiency,
    }
    return np.array([values[column] for column in COLUMNS])


def _typical(bundle: ProgramBundle, work: Work) -> Floats:
    """Return the median of each program input over the training kernels, as a row.

    Training rows hold reads and writes that miss together; they are split as in ``work``.
    """
    check = bundle.range_check
    rows = dict(zip(WORK_FEATURES, (check.rows * check.scale + check.centre).T, strict=True))
    median = {name: _median(column) for name, column in rows.items()}
    accesses = median["load_ratio"] + median["store_ratio"]
    flops = rows["flops_f64_ratio"] + rows["flops_f32_ratio"]
    computes = flops > _SOME_FLOPS
    moved = _median(flops[computes] / np.exp(rows["log_flops_per_l1_byte"][computes]))
    moved = WORD_BYTES * accesses if math.isnan(moved) else moved
    misses = {
        level: median[f"{feature}_miss_rate"] * accesses
        for level, feature in (("near", "l1"), ("middle", "l2"), ("far", "llc"))
    }
    atomics = math.exp(median["log_atomics_ratio"])
    values = {
        "flops_f64": median["flops_f64_ratio"],
        "flops_f32": median["flops_f32_ratio"],
        "int_ops": median["int_arith_ratio"],
        "branches": median["branch_ratio"],
        "mispredicts": median["branch_miss_rate"] * median["branch_ratio"],
        "loads": median["load_ratio"],
        "stores": median["store_ratio"],
        "load_bytes": moved * median["load_ratio"] / accesses,
        "store_bytes": moved * median["store_ratio"] / accesses,
        "footprint_bytes": math.exp(median["log_footprint_bytes"]),
        "regions": math.exp(-median["log_instructions_per_region"]),
        "atomics": atomics if atomics > _NO_ATOMICS else 0.0,
        "log_efficiency": bundle.manifest.typical_log_efficiency,
    }
    for level, reads, writes in zip(misses, work.read_misses, work.write_misses, strict=True):
        share = reads / (reads + writes) if reads + writes > 0 else 0.5
        values[f"{level}_reads"] = misses[level] * share
        values[f"{level}_writes"] = misses[level] * (1 - share)
    return np.array([values[column] for column in COLUMNS])


def _median(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if known.size else math.nan


_SOME_FLOPS = 1e-3
"""Least floating-point operations per instruction of kernels in the median of operations per
byte."""
_NO_ATOMICS = 1e-8
"""Atomic updates per instruction up to which the median counts as 0 (``features`` clips at
1e-9)."""


def _work(row: Floats, own: Work) -> Work:
    """Return the program's work (counts and bytes) from a row of inputs per instruction.

    The number of instructions is that of ``own``.
    """
    total = own.instructions
    value = {name: float(row[index]) for name, index in _AT.items()}
    regions, atomics = value["regions"], value["atomics"]
    counts: dict[str, Any] = {name: value[name] * total for name in _COUNTED}
    return replace(
        own,
        **counts,
        access_bytes=(value["load_bytes"] + value["store_bytes"]) * total,
        read_misses=_levels(value, "reads", total),
        write_misses=_levels(value, "writes", total),
        footprint_bytes=value["footprint_bytes"],
        regions=None if math.isnan(regions) else regions * total,
        atomics=None if math.isnan(atomics) else atomics * total,
    )


def _levels(value: dict[str, float], kind: str, total: float) -> Levels:
    """Return cache misses by level from inputs per instruction (``kind``: ``reads`` or ``writes``).

    Each level gets at least as many misses as the next level towards main memory. ``total`` is the
    number of instructions.
    """
    far = value[f"far_{kind}"]
    middle = max(far, value[f"middle_{kind}"])
    return (max(middle, value[f"near_{kind}"]) * total, middle * total, far * total)
