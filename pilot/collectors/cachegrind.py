"""Collector of instructions, memory accesses, cache misses and mispredictions by cachegrind.

Valgrind's cachegrind simulates two cache levels, so the program runs twice: with a last level of
32 MiB (a third-level cache) and of 1 MiB (a second-level cache).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.collectors import valgrind
from berth.pilot.collectors.base import Collector, Readings, Stage, emulated
from berth.pilot.launch import Order, Outcome
from berth.pilot.profile import Measurement

SOURCE = "cachegrind"
L1 = "32768,8,64"
MIB = 2**20
WAYS = 16

COMMON = {
    "instructions": ("Ir",),
    "loads": ("Dr",),
    "stores": ("Dw",),
    "branches": ("Bc", "Bi"),
    "branch_misses": ("Bcm", "Bim"),
    "l1_load_misses": ("D1mr",),
    "l1_store_misses": ("D1mw",),
    "l1_instruction_misses": ("I1mr",),
}


@dataclass(frozen=True, slots=True)
class Level:
    """A cache level that cachegrind's last level simulates, with its size and counters."""

    name: str
    capacity_bytes: int
    columns: Mapping[str, tuple[str, ...]]


L2 = Level("l2", MIB, {"l2_load_misses": ("DLmr",), "l2_store_misses": ("DLmw",)})
LLC = Level("llc", 32 * MIB, COMMON | {"llc_load_misses": ("DLmr",), "llc_store_misses": ("DLmw",)})


def simulation(level: Level) -> list[str]:
    """Return valgrind's options that set fixed cache sizes instead of the host's."""
    return [
        "--cache-sim=yes",
        "--branch-sim=yes",
        f"--I1={L1}",
        f"--D1={L1}",
        f"--LL={level.capacity_bytes},{WAYS},64",
    ]


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
    """Runs the program under cachegrind with one last-level cache; output goes to ``folder``."""

    name = "cachegrind"
    stage = Stage.EMULATED
    why_missing = "no emulated run counted it"

    @classmethod
    def runs(cls, folder: Path) -> Sequence[Collector]:
        """Return one collector for each cache level.

        The one for the third level is skipped if callgrind, which simulates it too, is used.
        """
        return (cls(LLC, folder / LLC.name), cls(L2, folder / L2.name))

    def __init__(self, level: Level, folder: Path) -> None:
        self._level = level
        self._folder = folder
        self.name = f"cachegrind-{level.name}"
        self.covered_by = ("emulator", "callgrind") if level is LLC else ("emulator",)

    def probe(self) -> str | None:
        return valgrind.probe()

    def prepare(self, order: Order) -> Order:
        self._folder.mkdir(parents=True, exist_ok=True)
        tool = [
            "--tool=cachegrind",
            *simulation(self._level),
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
            why = note or "cachegrind wrote no counts"
            return Readings(detail=why, failed=True)
        counters: dict[str, Measurement] = {}
        for name, columns in self._level.columns.items():
            if all(column in total for column in columns):
                value = math.fsum(total[column] for column in columns)
                counters[name] = emulated(SOURCE, value, note, complete=note is None)
        own = emulated(SOURCE, total["Ir"], note, complete=note is None)
        counters.setdefault("instructions", own)
        size = self._level.capacity_bytes // MIB
        detail = (
            f"last level pinned to {size} MiB, {len(processes)} processes, {outcome.wall_s:.1f} s"
        )
        return Readings(counters, detail, valgrind.notices(note, processes))
