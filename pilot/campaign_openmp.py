"""Count atomic updates and parallel regions in the OpenMP build of a reference kernel.

The campaign counts the serial build, which has neither. Here the OpenMP build runs on one thread
under callgrind with ``--collect-bus=yes``: ``Ge`` counts locked instructions, and calls of the
OpenMP runtime count parallel regions. As in the campaign, counts of a run without repetitions are
subtracted from those of one repetition, and the result is divided by the fraction that was run.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.collectors import valgrind
from berth.pilot.collectors.base import emulated
from berth.pilot.collectors.callgrind import CALLS, REGION_ENTRY
from berth.pilot.errors import PilotError
from berth.pilot.launch import Order, run_one
from berth.pilot.profile import Measurement
from berth.pilot.suite import Suite

SOURCE = "callgrind"
_TOTALS = re.compile(r"(?:totals|summary): (\d{1,18}) (\d{1,18})", re.ASCII)
EMULATED_ITERATIONS = 400_000
"""Approximate number of emulated iterations per repetition of kernels that support fractions."""
LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of locked instructions and parallel regions in one run, start-up included."""

    atomics: int
    regions: int


def openmp_counters(
    suite: Suite, kernel: str, size: int, *, nice: int = 0
) -> dict[str, Measurement]:
    """Return the counters ``atomic_ops`` and ``parallel_regions`` of one repetition of a kernel.

    Raises PilotError where a run fails, ToolMissing without valgrind or the OpenMP build.
    """
    work = suite.work(size)[kernel]
    wanted = min(1.0, EMULATED_ITERATIONS / max(work.iterations_per_rep, 1))
    exact = suite.run(kernel, size, 1, wanted, 1, openmp=True, timeout_s=LIMIT_S).fraction
    none, single = (
        _count(tuple(suite.command(kernel, size, reps, wanted, 1, openmp=True)), nice)
        for reps in (0, 1)
    )
    note = "of one repetition of the OpenMP build on one thread"
    # A part of a repetition still starts each of its regions.
    return {
        "atomic_ops": _measurement((single.atomics - none.atomics) / exact, note),
        "parallel_regions": _measurement(single.regions - none.regions, note),
    }


def parse(lines: Iterable[str]) -> Counts:
    """Return the locked instructions and the calls of the OpenMP runtime in a callgrind file."""
    atomics = regions = 0
    entry = False
    for line in lines:
        if line.startswith("cfn="):
            entry = REGION_ENTRY.match(line.rstrip()) is not None
        elif entry and (calls := CALLS.match(line)):
            regions += int(calls.group(1))
            entry = False
        elif line.startswith("totals:") and (totals := _TOTALS.match(line)):
            atomics += int(totals.group(2))
    return Counts(atomics, regions)


def _count(command: tuple[str, ...], nice: int) -> Counts:
    with tempfile.TemporaryDirectory(prefix="berth-openmp-") as name:
        folder = Path(name)
        tool = [
            "--tool=callgrind",
            "--collect-bus=yes",
            "--compress-strings=no",
            f"--callgrind-out-file={folder}/out.%p",
        ]
        order = Order(command, dict(os.environ), time_limit_s=LIMIT_S, nice=nice)
        outcome = run_one(valgrind.wrap(order, tool, folder))
        if not outcome.succeeded:
            raise PilotError(f"{' '.join(command[1:3])} under callgrind {outcome.describe()}")
        counts = Counts(0, 0)
        for path in sorted(folder.glob("out.*")):
            with path.open(encoding="utf-8", errors="replace") as stream:
                part = parse(stream)
            counts = Counts(counts.atomics + part.atomics, counts.regions + part.regions)
        return counts


def _measurement(value: float, note: str) -> Measurement:
    return emulated(SOURCE, max(0.0, value), note, complete=True)
