"""Whole programs on one core of eight CPUs, and the scores of thirteen (one person's measurements).

All were built and run alike (gcc -O3, one core). Loads and cache misses were not counted.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

import numpy as np

from berth.predictor.core.arrays import Floats
from lab.datasets import DataSet, locate

TIMES = DataSet(
    path="machines/cpu_program_times.csv",
    title="Times and counters of SPEC CPU 2017 programs on one core",
    source="https://github.com/jiegec/spec-cpu-2017-notes (public notes)",
    licence="figures are facts",
    sha256="4440919a745d48c4e499c93c2186b57befa20a9f12869266f45976862d234710",
)
SCORES = DataSet(
    path="machines/cpu_core_scores.csv",
    title="Geometric-mean speeds of one core",
    source=TIMES.source,
    licence=TIMES.licence,
    sha256="c942228be3aa8e83fe0176f8a56f0ba9a34d85277de360031cd6ecd3217dc9e5",
)
INTEGER = frozenset({"500", "502", "505", "520", "523", "525", "531", "541", "548", "557"})
"""Numbers of the integer programs."""


@dataclass(frozen=True, slots=True)
class CpuPrograms:
    """Measurements as arrays of CPUs x programs."""

    cpus: tuple[str, ...]
    programs: tuple[str, ...]
    integer: Floats
    """1 for an integer program, 0 for a floating-point program."""
    seconds: Floats
    instructions: Floats
    mispredicts: Floats
    """Mispredicted branches per instruction."""
    clock_hz: Floats


@cache
def cpu_programs() -> CpuPrograms:
    """Return the measurements. Raises ToolMissing or DocumentError, see ``locate``."""
    with locate(TIMES).open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    cpus = tuple(sorted({row["cpu"] for row in rows}))
    programs = tuple(sorted({row["program"] for row in rows}))
    of = {(row["cpu"], row["program"]): row for row in rows}

    def column(name: str, unit: float = 1.0) -> Floats:
        return np.array([[float(of[c, p][name]) * unit for p in programs] for c in cpus])

    return CpuPrograms(
        cpus=cpus,
        programs=programs,
        integer=np.array([float(program[:3] in INTEGER) for program in programs]),
        seconds=column("time_s"),
        instructions=column("instructions"),
        mispredicts=column("branch_mispredictions_per_1000_instructions", 1e-3),
        clock_hz=column("clock_mhz", 1e6),
    )
