"""Collector of all emulated counters in one run, with Berth's own valgrind tool.

Counts of instructions, bytes, branches and misses of simulated caches are exact, up to where the
run is cut.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from berth.pilot.collectors import valgrind
from berth.pilot.collectors.base import Collector, Readings, Stage, emulated
from berth.pilot.errors import PilotError, ToolMissing
from berth.pilot.launch import Order, ProcessResult

if TYPE_CHECKING:
    from berth.pilot.emulator.tool import EmulatedCounts

SOURCE = "emulator"
NATIVELY = "the pilot measures natively only (time, processor time, memory)"
END = "end"
"""Name of the file that asks the tool to write its counts and end."""
MISSES = (
    *(f"{level}_{kind}_misses" for kind in ("load", "store") for level in ("l1", "l2", "llc")),
    "l1_instruction_misses",
)
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

    def probe(self) -> str | None:
        machine = os.uname().machine
        if machine not in ("x86_64", "amd64"):
            return (
                f"it counts instructions of x86-64 only, and this machine is {machine}; {NATIVELY}"
            )
        from berth.pilot.emulator import tool  # noqa: PLC0415 - 30 ms, only for counting
        from berth.pilot.objdump import objdump_missing  # noqa: PLC0415

        try:
            self._tool = tool.built()
        except (ToolMissing, PilotError) as error:
            hint = f" ({error.hint})" if error.hint else ""
            return f"{error.message}{hint}; {NATIVELY}"
        missing = objdump_missing()
        return f"{missing}; {NATIVELY}" if missing else None

    def prepare(self, order: Order) -> Order:
        self._folder.mkdir(parents=True, exist_ok=True)
        options = ["--tool=berth", *FAST, f"--counts-file={self._folder}/out.%p"]
        options.append(f"--end-file={self._folder / END}")
        wrapped = valgrind.wrap(order, options, self._folder)
        env = {**wrapped.env, "VALGRIND_LIB": str(self._tool)}
        return replace(wrapped, env=env, end_file=str(self._folder / END))

    def finish(self, outcome: ProcessResult) -> Readings:
        from berth.pilot.collectors import instruction_mix  # noqa: PLC0415 - as in probe
        from berth.pilot.emulator.tool import counts_in  # noqa: PLC0415

        processes = valgrind.processes(self._folder)
        counts = counts_in(self._folder)
        note = valgrind.how_it_ended(outcome, processes)
        total = counts.instructions
        if not total:
            why = "the emulator was ended before it could write its counts" if outcome.cut else note
            return Readings(detail=why or "the emulator wrote no counts", failed=True)
        mix = instruction_mix.mix_of(counts.segments)
        if (unknown := valgrind.illegal_instruction(processes)) is not None:
            return Readings(detail=unknown, failed=True)
        if note is None and counts.cut:
            note = f"{counts.cut} processes were killed before they could write their counts"
        totals = counts.totals
        values = {name: totals.get(name, 0) for name in MISSES}
        values |= {"branches": totals.get("conditional", 0) + totals.get("indirect", 0)}
        missed = totals.get("conditional_missed", 0) + totals.get("indirect_missed", 0)
        values |= {"branch_misses": missed, "branches_taken": totals.get("taken", 0)}
        values |= {"load_bytes": counts.load_bytes, "store_bytes": counts.store_bytes}
        values |= {"parallel_regions": counts.regions, "instructions": total - mix.repeats}
        warnings = list(valgrind.notices(note))
        share = mix.classified / total
        if share >= instruction_mix.LEAST_CLASSIFIED:
            values |= {name: getattr(mix, name) for name in instruction_mix.OPERATIONS}
        else:
            values |= {"loads": counts.loads, "stores": counts.stores}
            warnings.append(f"only {share:.0%} of the instructions could be disassembled")
        whole = note is None
        return Readings(
            {name: emulated(SOURCE, value, note, complete=whole) for name, value in values.items()},
            _detail(share, counts, outcome),
            tuple(warnings),
            complete=whole,
        )


def _detail(share: float, counts: EmulatedCounts, outcome: ProcessResult) -> str:
    generated_share = counts.instructions_of("") / counts.instructions
    generated = (
        f", {generated_share:.1%} of them made at run time" if generated_share >= 0.001 else ""
    )
    spent = outcome.usage.get("ru_utime", 0.0) + outcome.usage.get("ru_stime", 0.0)
    return f"{share:.1%} of the instructions classified{generated}, {spent:.1f} s of processor time"
