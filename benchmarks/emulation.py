"""The one emulated run against the processor's own counters, on real programs.

Bars: at most 10 times the program's processor time; instructions exact; misses of each level and
mispredicted branches within 5 % (median) and 15 % (worst). Each event has a run of its own, so that
nothing is multiplexed. Programs are named as arguments (all by default); ``--cost`` leaves out the
processor's counters.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from real_programs import RealProgram, programs

from berth.pilot.catalogue import from_source
from berth.pilot.collectors import perf
from berth.pilot.collectors.base import Collector
from berth.pilot.collectors.emulator import EmulatorCollector
from berth.pilot.launch import Order, ProcessResult, run_one
from berth.pilot.run_pilot import SAMPLED_S

NATIVE_RUNS = 3
BAR_SLOWDOWN, BAR_MEDIAN, BAR_WORST = 10.0, 0.05, 0.15
NORMAL_90 = 1.645
FEW = 10_000
"""Counts below this are compared by what they would cost, not by their ratio: left out."""
SHOWN = (
    "instructions",
    "loads",
    "stores",
    "l1_load_misses",
    "l1_store_misses",
    "l2_load_misses",
    "l2_store_misses",
    "llc_load_misses",
    "llc_store_misses",
    "l1_instruction_misses",
    "branches",
    "branch_misses",
)


PRECISIONS = ("fp64_ops", "fp32_ops")
"""Counted apart by emulation, together by some processors (``fp_ops``)."""


def seconds(outcome: ProcessResult) -> float:
    """Processor time of the program and its children."""
    return outcome.usage.get("ru_utime", 0.0) + outcome.usage.get("ru_stime", 0.0)


def on_hardware(order: Order, folder: Path) -> dict[str, float]:
    """Counts of the processor for each counter that is one event of perf's."""
    folder.mkdir()
    found = {}
    formulas = from_source(perf.family(Path("/proc/cpuinfo").read_text()) or "perf:unknown")
    for name, formula in formulas.items():
        if len(perf.terms(formula)) > 1:
            continue
        output = folder / name
        words = ("perf", "stat", "-x,", "-o", str(output), "-e", f"{formula}:u", "--")
        run_one(replace(order, command=(*words, *order.command)))
        value = perf.evaluate(formula, perf.totals(perf.parse(output.read_text()))).value
        if value is not None:
            found[name] = value
    return found


Pairs = dict[str, tuple[float, float, float]]


def one(program: RealProgram, folder: Path, *, cost: bool) -> tuple[float, float, Pairs]:
    """(native seconds, slow-down, counter -> (counted, its error, what it is held against))."""
    order = Order(program.command, dict(os.environ), cwd=str(folder / program.name))
    runs = [run_one(order) for _ in range(NATIVE_RUNS)]
    if failed := [run for run in runs if not run.succeeded]:
        sys.exit(f"{program.name} {failed[0].describe()} (its package: {program.package})")
    native = statistics.median(seconds(run) for run in runs)
    collector: Collector = EmulatorCollector(folder / f"{program.name}-counts")
    if (why := collector.probe()) is not None:
        sys.exit(f"the emulator cannot be used here: {why}")
    outcome = run_one(collector.prepare(replace(order, sampled=native > SAMPLED_S)))
    if cost:
        return native, seconds(outcome) / native, {}
    counted = {n: m for n, m in collector.finish(outcome).counters.items() if m.value is not None}
    complete = on_hardware(order, folder / f"{program.name}-hardware")
    pairs = {
        name: (counted[name].value or 0.0, counted[name].standard_error or 0.0, complete[name])
        for name in SHOWN
        if name in counted and complete.get(name, 0.0) >= FEW
    }
    if complete.get("fp_ops", 0.0) >= FEW:
        both = [counted[name].value or 0.0 for name in PRECISIONS if name in counted]
        pairs["fp_ops"] = sum(both), 0.0, complete["fp_ops"]
    return native, seconds(outcome) / native, pairs


def main() -> int:
    """Print one row a program and the bars."""
    chosen = set(sys.argv[1:])
    cost = "--cost" in chosen
    chosen.discard("--cost")
    apart: dict[str, list[float]] = {}
    inside: list[bool] = []
    slowest = 0.0
    with tempfile.TemporaryDirectory(prefix="berth-emulation-") as name:
        print(f"{'program':10} {'native s':>9} {'times':>6}  off by, of hardware's counts")
        for program in programs(Path(name)):
            if chosen and program.name not in chosen:
                continue
            native, factor, pairs = one(program, Path(name), cost=cost)
            slowest = max(slowest, factor)
            words = []
            for counter, (counted, error, complete) in pairs.items():
                off = counted / complete - 1
                apart.setdefault(counter, []).append(abs(off))
                words.append(f"{counter} {off:+.2%}")
                if error:
                    words[-1] += f" (error {error / complete:.2%})"
                    inside.append(abs(counted - complete) <= NORMAL_90 * error)
            print(f"{program.name:10} {native:9.2f} {factor:6.1f}  {', '.join(words)}", flush=True)
    print(f"\nslow-down: at most {slowest:.1f} (bar {BAR_SLOWDOWN:g})")
    for counter, found in apart.items():
        print(
            f"{counter}: median {statistics.median(found):.2%} (bar {BAR_MEDIAN:.0%}), "
            f"worst {max(found):.2%} (bar {BAR_WORST:.0%}) of {len(found)} programs"
        )
    if inside:
        print(f"within 1.645 standard errors: {sum(inside)} of {len(inside)} (90 % wanted)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
