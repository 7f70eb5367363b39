"""Collector of all emulated counters in one run, with Berth's own valgrind tool.

The run takes 5 to 30 times the program's processor time, most for short loops; callgrind,
cachegrind and lackey together take 70 to 170 times. Counts of instructions, bytes and branches are
exact. For longer programs caches and branches are simulated in a part of the run only, so misses
have a standard error. See ``pilot/emulator/windows.c``, and ``settled.c`` for when counting ends.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from berth.pilot.collectors import valgrind
from berth.pilot.collectors.base import Collector, Readings, Stage, emulated
from berth.pilot.collectors.instruction_mix import (
    LEAST_CLASSIFIED,
    OPERATIONS,
    mix_of_code,
    objdump_missing,
)
from berth.pilot.emulator import tool
from berth.pilot.emulator.tool import DATA_MISSES, Counts, read_counts
from berth.pilot.errors import PilotError, ToolMissing
from berth.pilot.launch import Order, Outcome
from berth.pilot.profile import Measurement

SOURCE = "emulator"
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
    why_missing = "no emulated run counted it"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tool = folder
        self._program = ""
        self._threads: dict[str, str] = {}

    def probe(self) -> str | None:
        machine = os.uname().machine
        if machine not in ("x86_64", "amd64"):
            return f"instructions of {machine} are not classified yet; lackey stands in"
        try:
            self._tool = tool.built()
        except (ToolMissing, PilotError) as error:
            return f"{error.message}; valgrind's slower tools stand in"
        return objdump_missing()

    def prepare(self, order: Order) -> Order:
        self._folder.mkdir(parents=True, exist_ok=True)
        program = shutil.which(order.command[0], path=order.env.get("PATH")) or order.command[0]
        self._program = str((Path(order.cwd or "") / program).resolve())
        options = [f"--tool={tool.NAME}", *FAST, f"--counts-file={self._folder}/out.%p"]
        settled = None
        if order.sampled:
            options.append("--sampled=yes")
            if order.settle_after_s is not None:
                settled = str(self._folder / "settled")
                options.append(f"--settled-file={settled}")
                options.append(f"--settle-after={math.ceil(1000 * order.settle_after_s)}")
        # Do not emulate Open MPI's daemons: they start no rank on this node.
        options.append("--trace-children-skip=*/orted,*/prted")
        self._threads = {k: v for k, v in order.env.items() if k in valgrind.THREADS}
        wrapped = valgrind.wrap(order, options, self._folder)
        env = {**wrapped.env, "VALGRIND_LIB": str(self._tool)}
        return replace(wrapped, env=env, stop_file=settled)

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

    def sets_seen(self, outcome: Outcome) -> Mapping[str, frozenset[str]] | None:
        if outcome.exit_code and not outcome.cut:
            return None
        counts = self._counts()
        if not counts.instructions:
            return None
        return mix_of_code(counts.executed, counts.code).sets

    def _counts(self) -> Counts:
        counts = Counts()
        for path in sorted(self._folder.glob("out.*")):
            with path.open(encoding="utf-8", errors="replace") as stream:
                read_counts(stream, counts)
        return counts

    def _forget(self) -> None:
        for pattern in ("out.*", "log.*", "settled"):
            for path in self._folder.glob(pattern):
                path.unlink()

    def finish(self, outcome: Outcome) -> Readings:
        processes = valgrind.processes(self._folder)
        counts = self._counts()
        note = valgrind.how_it_ended(outcome, processes, counts.moved)
        total = counts.instructions
        if not total:
            return Readings(detail=note or "the emulator wrote no counts", failed=True)
        mix = mix_of_code(counts.executed, counts.code)
        sets = valgrind.with_avx512(mix.sets, self._program, processes)
        if (unknown := valgrind.illegal_instruction(processes)) is not None:
            return Readings(detail=unknown, failed=True, sets=sets, stopped=True)
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
        return Readings(
            _measurements(values, missed, note),
            _detail(share, counts, outcome),
            tuple(warnings),
            complete=note is None,
            seen=total,
            sets=sets,
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


def _detail(share: float, counts: Counts, outcome: Outcome) -> str:
    generated_share = sum(counts.executed.get("", {}).values()) / counts.instructions
    generated = (
        f", {generated_share:.1%} of them made at run time" if generated_share >= 0.001 else ""
    )
    spent = outcome.usage.get("ru_utime", 0.0) + outcome.usage.get("ru_stime", 0.0)
    return f"{share:.1%} of the instructions classified{generated}, {spent:.1f} s of processor time"
