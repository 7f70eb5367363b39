"""Collector of instructions, memory accesses, cache misses and mispredictions by cachegrind.

Valgrind's own tool stands in where Berth's cannot be built: it takes 30 to 60 times the program's
processor time, and counts neither bytes nor operations. It simulates two cache levels: the first,
and a last one of 32 MiB.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from berth.pilot.collectors import valgrind
from berth.pilot.collectors.base import Collector, Readings, Stage, emulated
from berth.pilot.launch import Order, Outcome
from berth.pilot.profile import Measurement

SOURCE = "cachegrind"
L1 = "32768,8,64"
LLC_BYTES = 32 * 2**20
WAYS = 16

COLUMNS = {
    "instructions": ("Ir",),
    "loads": ("Dr",),
    "stores": ("Dw",),
    "branches": ("Bc", "Bi"),
    "branch_misses": ("Bcm", "Bim"),
    "l1_load_misses": ("D1mr",),
    "l1_store_misses": ("D1mw",),
    "l1_instruction_misses": ("I1mr",),
    "llc_load_misses": ("DLmr",),
    "llc_store_misses": ("DLmw",),
}
"""Cachegrind's events by counter; several are added up."""
SIMULATION = (
    "--cache-sim=yes",
    "--branch-sim=yes",
    f"--I1={L1}",
    f"--D1={L1}",
    f"--LL={LLC_BYTES},{WAYS},64",
)
"""Valgrind's options that set fixed cache sizes instead of the host's."""


def parse(text: str) -> dict[str, int]:
    """Return the totals by event in a cachegrind or callgrind file; empty if it has no totals."""
    names: list[str] = []
    for line in text.splitlines():
        if line.startswith("events:"):
            names = line.split()[1:]
        elif line.startswith(("summary:", "totals:")) and names:
            values = [word.replace(",", "") for word in line.split()[1:]]
            if len(values) == len(names) and all(re.fullmatch(r"[0-9]{1,18}", v) for v in values):
                return {name: int(value) for name, value in zip(names, values, strict=True)}
    return {}


def add_up(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of several processes' totals, by event."""
    total: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total


class CachegrindCollector(Collector):
    """Runs the program once under cachegrind."""

    name = "cachegrind"
    stage = Stage.EMULATED
    why_missing = "no emulated run counted it"
    covered_by = ("emulator",)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def probe(self) -> str | None:
        return valgrind.probe()

    def prepare(self, order: Order) -> Order:
        self._folder.mkdir(parents=True, exist_ok=True)
        tool = [
            "--tool=cachegrind",
            *SIMULATION,
            f"--cachegrind-out-file={self._folder}/out.%p",
        ]
        return valgrind.wrap(order, tool, self._folder)

    def finish(self, outcome: Outcome) -> Readings:
        processes = valgrind.processes(self._folder)
        note = valgrind.how_it_ended(outcome, processes)
        total = add_up(
            parse(path.read_text(encoding="utf-8", errors="replace"))
            for path in sorted(self._folder.glob("out.*"))
        )
        if not total.get("Ir"):
            return Readings(detail=note or "cachegrind wrote no counts", failed=True)
        counters: dict[str, Measurement] = {}
        for name, columns in COLUMNS.items():
            if all(column in total for column in columns):
                value = math.fsum(total[column] for column in columns)
                counters[name] = emulated(SOURCE, value, note, complete=note is None)
        detail = f"{len(processes)} processes, {outcome.cpu_s:.1f} s of processor time"
        return Readings(counters, detail, valgrind.notices(note, processes))
