"""Collector of loads and stores by width and operations by type, with valgrind's lackey.

Lackey counts operations of valgrind's intermediate code, several per instruction, and knows only
the width of vectors. Its counts of bytes are exact, its counts of operations are rough.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from berth.pilot.collectors import valgrind
from berth.pilot.collectors.base import Collector, Readings, Stage, emulated
from berth.pilot.launch import Order, Outcome

SOURCE = "lackey"
WIDTHS = {
    "I1": 1,
    "I8": 1,
    "I16": 2,
    "I32": 4,
    "I64": 8,
    "I128": 16,
    "F16": 2,
    "F32": 4,
    "F64": 8,
    "F128": 16,
    "V128": 16,
    "V256": 32,
    "D32": 4,
    "D64": 8,
    "D128": 16,
}
"""Bytes of each intermediate-code type."""
INTEGER = ("I8", "I16", "I32", "I64", "I128")
FLOAT = ("F32", "F64", "F128")
VECTOR = ("V128", "V256")
NUMBER = r"([0-9][0-9,]{0,23})"
JUMPS = re.compile(
    rf"Jccs:\s*\n==\d+==\s+total:\s+{NUMBER}\s*\n==\d+==\s+taken:\s+{NUMBER}", re.ASCII
)
ROW = re.compile(rf"^==\d+==\s+([IFVD]\d+)\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}\s*$", re.M | re.A)


@dataclass(frozen=True, slots=True)
class Counts:
    """One process's counts: instructions, conditional jumps, and (loads, stores, ops) by type."""

    instructions: int = 0
    jumps: int = 0
    jumps_taken: int = 0
    by_type: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)


def parse(text: str) -> Counts | None:
    """Return the counts in a lackey log; None where the process ended before writing them."""
    instructions = _number(rf"guest instrs:\s+{NUMBER}", text)
    if instructions is None:
        return None
    jumps = JUMPS.search(text)
    by_type = {
        match.group(1): (_int(match.group(2)), _int(match.group(3)), _int(match.group(4)))
        for match in ROW.finditer(text)
        if match.group(1) in WIDTHS
    }
    taken = (_int(jumps.group(1)), _int(jumps.group(2))) if jumps else (0, 0)
    return Counts(instructions, *taken, by_type)


def totals(parts: list[Counts]) -> dict[str, float]:
    """Return the catalogue's counters, summed over the counts of all processes."""
    columns = [
        {kind: sum(part.by_type.get(kind, (0, 0, 0))[column] for part in parts) for kind in WIDTHS}
        for column in range(3)
    ]
    loads, stores, operations = columns
    result: dict[str, float] = {
        "instructions": sum(part.instructions for part in parts),
        "branches": sum(part.jumps for part in parts),
        "branches_taken": sum(part.jumps_taken for part in parts),
    }
    if any(part.by_type for part in parts):
        result |= {
            "loads": sum(loads.values()),
            "stores": sum(stores.values()),
            "load_bytes": sum(count * WIDTHS[kind] for kind, count in loads.items()),
            "store_bytes": sum(count * WIDTHS[kind] for kind, count in stores.items()),
            "int_ops": sum(operations[kind] for kind in INTEGER),
            "fp_ops": sum(operations[kind] for kind in FLOAT),
            "vector_instructions": sum(operations[kind] for kind in VECTOR),
        }
    return result


class LackeyCollector(Collector):
    """Runs the program once under valgrind's lackey, whose log has the counts."""

    name = "lackey"
    stage = Stage.EMULATED
    why_missing = "no emulated run counted it"
    covered_by = ("emulator",)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def probe(self) -> str | None:
        return valgrind.probe()

    def prepare(self, order: Order) -> Order:
        self._folder.mkdir(parents=True, exist_ok=True)
        tool = ["--tool=lackey", "--basic-counts=yes", "--detailed-counts=yes"]
        return valgrind.wrap(order, tool, self._folder)

    def finish(self, outcome: Outcome) -> Readings:
        processes = valgrind.processes(self._folder)
        note = valgrind.how_it_ended(outcome, processes)
        parts = [counts for process in processes if (counts := parse(process.text)) is not None]
        if not any(part.instructions for part in parts):
            return Readings(detail=note or "lackey wrote no counts", failed=True)
        values = totals(parts)
        counters = {
            name: emulated(SOURCE, value, note, complete=note is None)
            for name, value in values.items()
        }
        detail = f"{len(parts)} processes, {outcome.wall_s:.1f} s"
        return Readings(counters, detail, valgrind.notices(note, processes))


def _number(pattern: str, text: str) -> int | None:
    match = re.search(pattern, text)
    return _int(match.group(1)) if match else None


def _int(digits: str) -> int:
    return int(digits.replace(",", ""))
