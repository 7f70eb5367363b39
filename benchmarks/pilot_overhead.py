"""What measuring costs: native time with and without the pilot's collectors.

Bar: /proc, control groups and hardware counters at most 2 % slower than native. On a busy machine
wall time tells little (the pilot runs the program in a session of its own, which the kernel
schedules as a group of its own); processor time tells more. ``pilot_cost.py`` has a whole pilot's.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from berth.pilot.collectors.base import Collector
from berth.pilot.collectors.cgroup import CgroupCollector
from berth.pilot.collectors.nvml import NvmlCollector
from berth.pilot.collectors.perf import PerfCollector
from berth.pilot.collectors.proc import ProcCollector
from berth.pilot.launch import Order, ProcessResult, run_one
from berth.pilot.suite import build_suite

KERNELS = (("Stream_TRIAD", 8_388_608, 100), ("Polybench_GEMM", 65_536, 15))
"""Kernel, size, repetitions."""
ROUNDS = int(os.environ.get("BERTH_BENCH_ROUNDS", "11"))
BAR = 0.02


Times = tuple[float, float]
"""Wall and processor time of the program, in seconds."""


def native(command: Sequence[str]) -> Times:
    """The plain program, output discarded."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return time.perf_counter() - started, used.ru_utime + used.ru_stime


def plain(command: Sequence[str]) -> Times:
    """Under the shepherd alone."""
    return _times(run_one(Order(tuple(command), dict(os.environ), sample=False)))


def watched(command: Sequence[str]) -> Times:
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
    return _times(outcome)


def under_perf(command: Sequence[str]) -> Times:
    """Under perf stat with the family's events."""
    with tempfile.TemporaryDirectory() as folder:
        perf = PerfCollector(Path(folder))
        perf.probe()
        return _times(run_one(perf.prepare(Order(tuple(command), dict(os.environ)))))


def _times(outcome: ProcessResult) -> Times:
    return outcome.wall_s, outcome.usage["ru_utime"] + outcome.usage["ru_stime"]


def compare(command: Sequence[str], ways: dict[str, Callable[[Sequence[str]], Times]]) -> None:
    """Interleaved rounds, so that the machine's moods meet all ways alike."""
    taken: dict[str, list[Times]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            taken[name].append(way(command))
    base = taken["native"]
    for name, times in taken.items():
        wall, cpu = (
            statistics.median(t[kind] / b[kind] - 1 for t, b in zip(times, base, strict=True))
            for kind in (0, 1)
        )
        median = statistics.median(t[0] for t in times)
        bar = "" if name == "native" else f"{BAR:7.1%}  {'met' if wall <= BAR else 'missed'}"
        print(f"  {name:26s} {median:8.3f} s {wall:+8.2%} {cpu:+9.2%}  {bar}")


def main() -> int:
    """Print the tables; 1 where the kernels cannot be built."""
    suite = build_suite()
    ways = {"native": native, "shepherd": plain, "proc + cgroup + nvml": watched}
    with tempfile.TemporaryDirectory() as folder:
        why = PerfCollector(Path(folder)).probe()
    if why is None:
        ways["hardware counters (perf)"] = under_perf
    for kernel, size, reps in KERNELS:
        print(f"{kernel} at {size}, {reps} repetitions, {ROUNDS} interleaved rounds")
        print(f"  {'':26s} {'median':>10s} {'wall':>8s} {'processor':>9s}  {'bar':>7s}")
        compare(suite.command(kernel, size, reps), ways)
        if why is not None:
            print(f"  hardware counters: not measured: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
