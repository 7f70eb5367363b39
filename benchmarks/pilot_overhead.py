"""What measuring costs: native time with and without the pilot's collectors, and emulation.

Bars: /proc, control groups and hardware counters at most 2 % slower than native; all emulated
runs within ``--max-slowdown``; emulated counts the same twice.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from berth.pilot import host
from berth.pilot.collectors.base import Collector
from berth.pilot.collectors.cgroup import CgroupCollector
from berth.pilot.collectors.nvml import NvmlCollector
from berth.pilot.collectors.perf import PerfCollector
from berth.pilot.collectors.proc import ProcCollector
from berth.pilot.emulate import TOOLS, emulate
from berth.pilot.launch import Order, run_one
from berth.pilot.options import PilotOptions
from berth.pilot.suite import build_suite

KERNELS = (("Stream_TRIAD", 8_388_608, 100, 20), ("Polybench_GEMM", 65_536, 15, 3))
"""Kernel, size, repetitions when timed, repetitions when emulated."""
ROUNDS = int(os.environ.get("BERTH_BENCH_ROUNDS", "11"))
BAR = 0.02
MAX_SLOWDOWN = PilotOptions(command=()).max_slowdown


def native_s(command: Sequence[str]) -> float:
    """Wall time of the plain program, output discarded."""
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def plain_s(command: Sequence[str]) -> float:
    """Under the shepherd alone."""
    return run_one(Order(tuple(command), dict(os.environ), discard=True, sample=False)).wall_s


def watched_s(command: Sequence[str]) -> float:
    """With everything that a pilot attaches to its first native run."""
    every: list[Collector] = [ProcCollector(), CgroupCollector(), NvmlCollector()]
    usable = [collector for collector in every if collector.probe() is None]
    order = Order(tuple(command), dict(os.environ))
    for collector in usable:
        order = collector.prepare(order)

    def watch(pid: int) -> None:
        for collector in usable:
            collector.watch(pid)

    outcome = run_one(order, watch=watch)
    for collector in usable:
        collector.finish(outcome)
    return outcome.wall_s


def under_perf_s(command: Sequence[str]) -> float:
    """Under perf stat with the family's events."""
    with tempfile.TemporaryDirectory() as folder:
        perf = PerfCollector(Path(folder))
        perf.probe()
        return run_one(perf.prepare(Order(tuple(command), dict(os.environ)))).wall_s


def compare(command: Sequence[str], ways: dict[str, Callable[[Sequence[str]], float]]) -> None:
    """Interleaved rounds, so that the machine's moods meet all ways alike."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            times[name].append(way(command))
    base = times["native"]
    for name, taken in times.items():
        ratios = [t / b - 1 for t, b in zip(taken, base, strict=True)]
        paired, least = statistics.median(ratios), min(taken) / min(base) - 1
        bar = "" if name == "native" else f"{BAR:7.1%}  {'met' if paired <= BAR else 'missed'}"
        print(f"  {name:26s} {statistics.median(taken):8.3f} s {paired:+8.2%} {least:+9.2%}  {bar}")


def emulation(command: Sequence[str]) -> None:
    """Slow-down of the whole emulated part, and whether two runs count the same."""
    native = min(plain_s(command) for _ in range(3))
    budget = max(10.0, MAX_SLOWDOWN * native)
    found = []
    for _ in range(2):
        started = time.perf_counter()
        order = Order(tuple(command), dict(os.environ), discard=True)
        found.append(emulate(order, tools=TOOLS, budget_s=budget, jobs=host.cores()))
        taken = time.perf_counter() - started
        verdict = "met" if taken <= budget else "missed"
        print(
            f"  {'emulated, all tools':26s} {taken:8.3f} s {taken / native:7.1f}x"
            f"   budget {budget:6.1f} s  {verdict}"
        )
    same = found[0].counters == found[1].counters and bool(found[0].counters)
    print(f"  the same {len(found[0].counters)} counts twice: {'yes' if same else 'NO'}")


def main() -> int:
    """Print the tables; 1 where the kernels cannot be built."""
    suite = build_suite()
    ways = {"native": native_s, "shepherd": plain_s, "proc + cgroup + nvml": watched_s}
    with tempfile.TemporaryDirectory() as folder:
        why = PerfCollector(Path(folder)).probe()
    if why is None:
        ways["hardware counters (perf)"] = under_perf_s
    for kernel, size, reps, fewer in KERNELS:
        print(f"{kernel} at {size}, {reps} repetitions, {ROUNDS} interleaved rounds")
        print(f"  {'':26s} {'median':>10s} {'paired':>8s} {'least':>9s}  {'bar':>7s}")
        compare(suite.command(kernel, size, reps), ways)
        if why is not None:
            print(f"  hardware counters: not measured: {why}")
        if shutil.which("valgrind"):
            emulation(suite.command(kernel, size, fewer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
