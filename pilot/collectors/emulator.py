"""Collector of all emulated counters in one run, with Berth's own valgrind tool.

The run takes 5 to 30 times the program's processor time, most for short loops. EmulatedCounts of
instructions, bytes and branches are exact. For longer programs caches and branches are simulated in
a part of the run only, so misses have a standard error. See ``pilot/emulator/windows.c``, and
``settled.c`` for when counting ends.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from berth.pilot.collectors import valgrind
from berth.pilot.collectors.base import Collector, Readings, Stage, emulated
from berth.pilot.collectors.instruction_mix import (
    LEAST_CLASSIFIED,
    OPERATIONS,
    mix_of,
)
from berth.pilot.emulator import tool
from berth.pilot.emulator.tool import DATA_MISSES, EmulatedCounts, read_counts
from berth.pilot.errors import PilotError, ToolMissing
from berth.pilot.launch import Order, ProcessResult
from berth.pilot.objdump import objdump_missing
from berth.pilot.profile import Measurement

SOURCE = "emulator"
COUNTED = "counted"
"""Name of the file in which the tool says why counting ended before the program, and when."""
NATIVELY = "the pilot measures natively only (time, processor time, memory)"
END = "end"
"""Name of the file that asks the tool to write its counts and end."""
UNTIL_CUT = 0.9
"""Share of the limits for which a run is counted that goes on afterwards: the rest is for the ranks
that are counted beside it."""
MESSAGE_LIBRARY = re.compile(
    r"/(?:lib(?:mpi|open-pal|open-rte|pmi|uc[mpst]|fabric|psm)[\w-]*|mca_\w+)\.so[^/]*$"
)
"""Files of MPI libraries and of what carries their messages."""
WAITING_NOTICED, WAITING_REFUSED = 0.1, 0.5
"""Share of the instructions in an MPI library, where ranks spin while they wait for each other, at
which counts have a warning, and at which they are refused."""
FAST = (
    "--vgdb=no",
    "--vex-guest-max-insns=100",
    # Do not keep registers up to date for a debugger: saves a fifth of the time.
    "--vex-iropt-register-updates=sp-at-mem-access",
)


class EmulatorCollector(Collector):
    """Runs the program once under Berth's own valgrind tool."""

    name = "emulator"
    stage = Stage.EMULATED
    why_missing = "no run counted it: {detail}"
    not_seen = "the emulated run did not"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tool = folder
        self._program = ""
        self._threads: dict[str, str] = {}

    def probe(self) -> str | None:
        machine = os.uname().machine
        if machine not in ("x86_64", "amd64"):
            return (
                f"it counts instructions of x86-64 only, and this machine is {machine}; {NATIVELY}"
            )
        try:
            self._tool = tool.built()
        except (ToolMissing, PilotError) as error:
            hint = f" ({error.hint})" if error.hint else ""
            return f"{error.message}{hint}; {NATIVELY}"
        missing = objdump_missing()
        return f"{missing}; {NATIVELY}" if missing else None

    def prepare(self, order: Order) -> Order:
        self._folder.mkdir(parents=True, exist_ok=True)
        program = shutil.which(order.command[0], path=order.env.get("PATH")) or order.command[0]
        self._program = str((Path(order.cwd or "") / program).resolve())
        options = [f"--tool={tool.NAME}", *FAST, f"--counts-file={self._folder}/out.%p"]
        options += self._ends_of_counting(order)
        # Do not emulate Open MPI's daemons: they start no rank on this node.
        options.append("--trace-children-skip=*/orted,*/prted")
        self._threads = {k: v for k, v in order.env.items() if k in valgrind.THREADS}
        wrapped = valgrind.wrap(order, options, self._folder)
        env = {**wrapped.env, "VALGRIND_LIB": str(self._tool)}
        wrapped = replace(wrapped, env=env, end_file=str(self._folder / END))
        if order.goes_on:
            return replace(wrapped, cpu_limit_s=None)
        return replace(wrapped, stop_file=str(self._folder / COUNTED))

    def _ends_of_counting(self, order: Order) -> list[str]:
        """Return the tool's options that say when counting ends, and how caches are simulated."""
        options = [f"--counted-file={self._folder / COUNTED}", f"--end-file={self._folder / END}"]
        if order.sampled:
            options.append("--sampled=yes")
            if order.settle_after_s is not None:
                options.append(f"--settle-after={math.ceil(1000 * order.settle_after_s)}")
        if order.goes_on:
            for name, limit_s in (("for", order.cpu_limit_s), ("until", order.time_limit_s)):
                if limit_s is not None:
                    options.append(f"--count-{name}={math.ceil(1000 * UNTIL_CUT * limit_s)}")
        return options

    def counted(self, outcome: ProcessResult) -> ProcessResult | None:
        file = self._folder / COUNTED
        why, _, milliseconds = (file.read_text() if file.exists() else "").strip().rpartition(" ")
        if not why:
            return None
        usage = {"ru_utime": int(milliseconds) / 1000}
        return replace(outcome, cut=why, exit_code=None, signal=None, usage=usage)

    def again(self, order: Order) -> Order | None:
        """Return the launch order with the user's number of threads.

        The first run used one thread, with which some programs refuse to run.
        """
        self._forget()
        env = {k: v for k, v in order.env.items() if k not in valgrind.THREADS}
        return replace(order, env=env | self._threads)

    def plainly(self, order: Order) -> Order:
        self._forget()
        at = order.command.index("--")
        options = ("--plain=yes", "--sampled=no", "--caches=no", "--branches=no")
        return replace(order, command=(*order.command[:at], *options, *order.command[at:]))

    def sets_seen(self, outcome: ProcessResult) -> Mapping[str, frozenset[str]] | None:
        if outcome.exit_code and not outcome.cut:
            return None
        counts = self._counts()
        if not counts.instructions:
            return None
        return mix_of(counts.segments).sets

    def _counts(self) -> EmulatedCounts:
        counts = EmulatedCounts()
        for path in sorted(self._folder.glob("out.*")):
            with path.open(encoding="utf-8", errors="replace") as stream:
                read_counts(stream, counts)
        return counts

    def _forget(self) -> None:
        for pattern in ("out.*", "log.*", COUNTED, END):
            for path in self._folder.glob(pattern):
                path.unlink()

    def finish(self, outcome: ProcessResult) -> Readings:
        processes = valgrind.processes(self._folder)
        counts = self._counts()
        note = valgrind.how_it_ended(outcome, processes, counts.moved)
        total = counts.instructions
        if not total:
            why = "the emulator was ended before it could write its counts" if outcome.cut else note
            return Readings(detail=why or "the emulator wrote no counts", failed=True)
        mix = mix_of(counts.segments)
        sets = valgrind.with_avx512(mix.sets, self._program, processes)
        if (unknown := valgrind.illegal_instruction(processes)) is not None:
            return Readings(detail=unknown, failed=True, sets=sets, stopped=True)
        waiting = _share_of_messages(counts)
        if waiting >= WAITING_REFUSED:
            why = f"counts are refused: {_waits(waiting)}"
            return Readings(detail=why, failed=True, sets=sets)
        if note is None and counts.cut:
            note = f"{counts.cut} processes were killed before they could write their counts"
        branches = ("conditional", "indirect")
        values = {"branches": sum(counts.totals.get(kind, 0) for kind in branches)}
        values |= {"load_bytes": counts.load_bytes, "store_bytes": counts.store_bytes}
        values |= {"parallel_regions": counts.regions, "instructions": total - mix.repeats}
        missed = {name: counts.missed(name) for name in (*DATA_MISSES, "l1_instruction_misses")}
        missed["branch_misses"] = counts.missed("conditional_missed", "indirect_missed")
        if counts.simulated >= counts.superblocks:  # windows do not see which way loops turn
            missed["branches_taken"] = counts.missed("taken")
        warnings = list(valgrind.notices(note))
        share = mix.classified / total
        if share >= LEAST_CLASSIFIED:
            values |= {name: getattr(mix, name) for name in OPERATIONS}
        else:
            values |= {"loads": counts.loads, "stores": counts.stores}
            warnings.append(f"only {share:.0%} of the instructions could be disassembled")
        if waiting >= WAITING_NOTICED:
            warnings.append(
                f"the counts are of more than the program's own work: {_waits(waiting)}"
            )
        return Readings(
            _measurements(values, missed, note),
            _detail(share, counts, outcome),
            tuple(warnings),
            complete=note is None,
            sets=sets,
        )


def _share_of_messages(counts: EmulatedCounts) -> float:
    """Return the share of the instructions that are code of an MPI library."""
    libraries = [name for name in counts.segments if MESSAGE_LIBRARY.search(name)]
    return sum(counts.instructions_of(name) for name in libraries) / counts.instructions


def _waits(share: float) -> str:
    return (
        f"{share:.0%} of the instructions are the MPI library's, most of which ranks execute while "
        "they wait for each other"
    )


def _measurements(
    values: Mapping[str, float], missed: Mapping[str, tuple[float, float]], note: str | None
) -> dict[str, Measurement]:
    whole = note is None
    counters = {
        name: emulated(SOURCE, value, note, complete=whole) for name, value in values.items()
    }
    for name, (value, error) in missed.items():
        count = emulated(SOURCE, value, note, complete=whole)
        counters[name] = count.model_copy(update={"standard_error": error}) if error else count
    return counters


def _detail(share: float, counts: EmulatedCounts, outcome: ProcessResult) -> str:
    generated_share = counts.instructions_of("") / counts.instructions
    generated = (
        f", {generated_share:.1%} of them made at run time" if generated_share >= 0.001 else ""
    )
    spent = outcome.usage.get("ru_utime", 0.0) + outcome.usage.get("ru_stime", 0.0)
    return f"{share:.1%} of the instructions classified{generated}, {spent:.1f} s of processor time"
