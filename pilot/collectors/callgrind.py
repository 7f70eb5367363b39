"""Collector of the instruction mix: callgrind counts each instruction, objdump disassembles it.

Lackey counts only valgrind's intermediate code; callgrind counts machine instructions, so single
and double precision, vector lanes and fused operations are distinguished. Callgrind also simulates
caches and branches as cachegrind does, here with the 32 MiB last level, so all counters come from
one run. Dumping before each fork makes the counts of forked processes exact.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from berth.pilot.collectors import cachegrind, valgrind
from berth.pilot.collectors.base import Collector, Readings, Stage, emulated
from berth.pilot.collectors.instruction_mix import (
    LEAST_CLASSIFIED,
    OPERATIONS,
    Executed,
    mix_of,
    objdump_missing,
)
from berth.pilot.launch import Order, Outcome
from berth.pilot.private_folder import original
from berth.pilot.profile import Measurement

SOURCE = "callgrind"
COST = re.compile(r"^(0x[0-9a-f]{1,16}) (\d{1,18})(?: \d{1,18})*$", re.ASCII)
REGION_ENTRY = re.compile(r"cfn=.*\b(GOMP_parallel\w*|__kmpc_fork_call)$", re.ASCII)
"""Functions of GNU's and LLVM's OpenMP runtimes that are called once for each parallel region."""
CALLS = re.compile(r"calls=(\d{1,18}) ", re.ASCII)
REGIONS = "regions"
FORKS = ("fork", "_Fork", "__fork", "__libc_fork")


def parse(lines: Iterable[str], into: Executed) -> dict[str, int]:
    """Add a callgrind file's executions of each instruction to ``into``; return the file's totals.

    The key ``REGIONS`` has the number of OpenMP parallel regions. An incomplete file has no other
    totals, but its instructions are added. The file needs ``--dump-instr=yes``.
    """
    place: dict[int, int] = {}
    skip = entry = False
    regions = 0
    totals: list[str] = []
    for line in lines:
        if line.startswith(("events:", "totals:")):
            totals.append(line)
        elif line.startswith("ob="):
            place = into.setdefault(original(line[3:].strip()), {})
        elif line.startswith("cfn="):
            entry = REGION_ENTRY.match(line.rstrip()) is not None
        elif line.startswith("calls="):
            if entry and (calls := CALLS.match(line)):
                regions += int(calls.group(1))
            skip, entry = True, False
        elif line.startswith("0x"):
            # The line after calls= has the callee's cost, which is counted in the callee.
            if not skip and (match := COST.match(line.strip())):
                address = int(match.group(1), 16)
                place[address] = place.get(address, 0) + int(match.group(2))
            skip = False
    return {**cachegrind.parse("\n".join(totals)), REGIONS: regions}


class CallgrindCollector(Collector):
    """Runs the program once under valgrind's callgrind."""

    name = "callgrind"
    stage = Stage.EMULATED
    why_missing = "no emulated run counted it"
    covered_by = ("emulator",)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program = ""

    def probe(self) -> str | None:
        machine = os.uname().machine
        if machine not in ("x86_64", "amd64"):
            return f"instructions of {machine} are not classified yet; lackey stands in"
        return valgrind.probe() or objdump_missing()

    def prepare(self, order: Order) -> Order:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._program = os.path.realpath(order.command[0])
        tool = [
            "--tool=callgrind",
            "--dump-instr=yes",
            "--dump-line=no",
            *cachegrind.simulation(cachegrind.LLC),
            "--compress-strings=no",
            "--compress-pos=no",
            *(f"--dump-before={name}" for name in FORKS),
            f"--callgrind-out-file={self._folder}/out.%p",
        ]
        return valgrind.wrap(order, tool, self._folder)

    def finish(self, outcome: Outcome) -> Readings:
        processes = valgrind.processes(self._folder)
        note = valgrind.how_it_ended(outcome, processes)
        executed: Executed = {}
        parts = []
        for path in sorted(self._folder.glob("out.*")):
            with path.open(encoding="utf-8", errors="replace") as stream:
                parts.append(parse(stream, executed))
        total = sum(sum(counts.values()) for counts in executed.values())
        if not total:
            return Readings(detail=note or "callgrind wrote no counts", failed=True)
        complete = note is None
        mix = mix_of(executed, frozenset({self._program}))
        sets = valgrind.with_avx512(mix.sets, self._program, processes)
        if (unknown := valgrind.illegal_instruction(processes)) is not None:
            return Readings(detail=unknown, failed=True, sets=sets, stopped=True)
        simulated = cachegrind.add_up(parts)
        counters: dict[str, Measurement] = {
            name: emulated(SOURCE, sum(simulated[c] for c in columns), note, complete=complete)
            for name, columns in cachegrind.LLC.columns.items()
            if all(column in simulated for column in columns)
        }
        counters["instructions"] = emulated(SOURCE, total - mix.repeats, note, complete=complete)
        regions = simulated[REGIONS]
        counters["parallel_regions"] = emulated(SOURCE, regions, note, complete=complete)
        share = mix.classified / total
        noticed = valgrind.notices(note)
        if share < LEAST_CLASSIFIED:
            why = f"only {share:.0%} of the instructions could be disassembled (generated code?)"
            warnings = (*noticed, f"no instruction mix: {why}")
            return Readings(counters, why, warnings, seen=total, sets=sets)
        for name in OPERATIONS:
            counters[name] = emulated(SOURCE, getattr(mix, name), note, complete=complete)
        detail = f"{share:.1%} of the instructions classified, {outcome.wall_s:.1f} s"
        return Readings(counters, detail, noticed, seen=total, sets=sets)
