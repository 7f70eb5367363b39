"""The instruction mix: valgrind's callgrind counts each executed instruction, objdump names it.

Unlike lackey this sees real instructions, so single and double precision, vector lanes and fused
operations are told apart. Callgrind simulates caches and branches as cachegrind does, here with
the large last level, so that one run, even one cut short, gives counters that fit together.
Dumping before each fork makes the counts of forked processes exact.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from berth.pilot.collectors import cachegrind, disassembly, valgrind
from berth.pilot.collectors.base import Readings, emulated
from berth.pilot.collectors.x86 import classify
from berth.pilot.launch import Order, Outcome
from berth.pilot.profile import Measurement

SOURCE = "callgrind"
COST = re.compile(r"^(0x[0-9a-f]{1,16}) (\d{1,18})(?: \d{1,18})*$", re.ASCII)
ENOUGH = 0.995
"""Objects are disassembled, largest first, until this share of the instructions is covered."""
LEAST = 0.95
"""Below this classified share the mix is not given; above, the rest counts as of no kind."""
FORKS = ("fork", "_Fork", "__fork", "__libc_fork")

Executed = dict[str, dict[int, int]]
"""Object file -> address in it -> times executed."""


@dataclass(slots=True)
class Mix:
    """Executed instructions by kind."""

    classified: int = 0
    fp32_ops: int = 0
    fp64_ops: int = 0
    fp32_instructions: int = 0
    fp64_instructions: int = 0
    int_ops: int = 0
    control_instructions: int = 0
    vector_instructions: int = 0
    atomic_ops: int = 0
    loads: int = 0
    stores: int = 0
    extensions: set[str] = field(default_factory=set)
    """Of the program's own file: libraries choose theirs by what the processor has."""


def parse(lines: Iterable[str], into: Executed) -> dict[str, int]:
    """Add how often each instruction ran (``--dump-instr=yes``); returns the file's totals.

    A file that was cut off in the middle has no totals: its instructions count all the same.
    """
    place: dict[int, int] = {}
    skip = False
    totals: list[str] = []
    for line in lines:
        if line.startswith(("events:", "totals:")):
            totals.append(line)
        elif line.startswith("ob="):
            place = into.setdefault(line[3:].strip(), {})
        elif line.startswith("calls="):
            skip = True
        elif line.startswith("0x"):
            # The line after calls= is what the callee cost, counted there.
            if not skip and (match := COST.match(line.strip())):
                address = int(match.group(1), 16)
                place[address] = place.get(address, 0) + int(match.group(2))
            skip = False
    return cachegrind.parse("\n".join(totals))


def mix_of(executed: Mapping[str, Mapping[int, int]], own: frozenset[str]) -> Mix:
    """Classify what ran; ``own`` are the files whose instruction sets the program needs."""
    result = Mix()
    total = sum(sum(counts.values()) for counts in executed.values())
    for path, counts in sorted(executed.items(), key=lambda item: -sum(item[1].values())):
        if result.classified >= ENOUGH * total and path not in own:
            continue
        if not Path(path).is_absolute() or not Path(path).is_file():
            continue
        for address, text in disassembly.disassemble(Path(path), counts).items():
            _add(result, text, counts[address], path in own)
    return result


def _add(mix: Mix, text: str, times: int, own: bool) -> None:
    kind = classify(text)
    mix.classified += times
    mix.fp32_ops += times * kind.fp32_ops
    mix.fp64_ops += times * kind.fp64_ops
    mix.fp32_instructions += times * (kind.fp32_ops > 0)
    mix.fp64_instructions += times * (kind.fp64_ops > 0)
    mix.int_ops += times * kind.integer
    mix.control_instructions += times * kind.control
    mix.vector_instructions += times * kind.vector
    mix.atomic_ops += times * kind.atomic
    mix.loads += times * kind.loads
    mix.stores += times * kind.stores
    if own and kind.extension:
        mix.extensions.add(kind.extension)


class CallgrindCollector:
    """One run under callgrind; ``extensions`` is there after finish."""

    name = "callgrind"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program = ""
        self.extensions: tuple[str, ...] = ()

    def probe(self) -> str | None:
        machine = os.uname().machine
        if machine not in ("x86_64", "amd64"):
            return f"instructions of {machine} are not classified yet; lackey stands in"
        return valgrind.probe() or disassembly.probe()

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

    def watch(self, shepherd_pid: int) -> None:
        return

    def finish(self, outcome: Outcome) -> Readings:
        found = valgrind.processes(self._folder)
        note = valgrind.how_it_ended(outcome, found)
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
        if valgrind.needs_avx512(found):
            mix.extensions.add("avx512f")
        self.extensions = tuple(sorted(mix.extensions))
        simulated = cachegrind.add_up(parts)
        counters: dict[str, Measurement] = {
            name: emulated(SOURCE, sum(simulated[c] for c in columns), note, complete=complete)
            for name, columns in cachegrind.LLC.columns.items()
            if all(column in simulated for column in columns)
        }
        counters["instructions"] = emulated(SOURCE, total, note, complete=complete)
        share = mix.classified / total
        noticed = valgrind.notices(note)
        if share < LEAST:
            why = f"only {share:.0%} of the instructions could be disassembled (generated code?)"
            return Readings(counters, why, (*noticed, f"no instruction mix: {why}"))
        for name in (
            "fp32_ops",
            "fp64_ops",
            "fp32_instructions",
            "fp64_instructions",
            "int_ops",
            "control_instructions",
            "vector_instructions",
            "atomic_ops",
            "loads",
            "stores",
        ):
            counters[name] = emulated(SOURCE, getattr(mix, name), note, complete=complete)
        detail = f"{share:.1%} of the instructions classified, {outcome.wall_s:.1f} s"
        return Readings(counters, detail, noticed)
