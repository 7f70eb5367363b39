"""Whether other programs on the machine change what is measured, in a few minutes.

Starts ``--loops`` endless loops (30; 0: take the machine as it is) and prints two bars. The first
one: the processor share (``berth pilot bench``), which nothing but a quota or a host may lower, in
ten runs. The second one: whether the 90 % interval of busy pilots holds the program's time on an
idle machine, for seven programs of 3 ms to 2 s, three pilots each. That time is the least of three
to ten runs at real-time priority, before which all other work gives way (as root, or with
CAP_SYS_NICE); otherwise, the least of as many runs, with a word. ``--pilots N`` takes N of each.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from berth.pilot.launch import Order, run_one
from berth.pilot.options import PilotOptions
from berth.pilot.run_pilot import run_pilot
from berth.pilot.suite import Suite, build_suite
from berth.predictor.core.intervals import NORMAL_90

SHARES, SHARE_OFF, HELD = 10, 0.02, 19 / 21
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
int main(int n, char **words)
{
    const long count = atol(words[1]), rounds = atol(words[2]);
    double *a = calloc(count, sizeof *a), sum = 0;
    for (long r = 0; r < rounds; r++) {
#pragma omp parallel for
        for (long k = 0; k < count; k++)
            a[k] = a[k] * 0.999 + 0.5 / (1 + a[k]);
        sum += a[r % count];
    }
    printf("%g\\n", sum);
    return 0;
}
"""
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "3 ms": ("./one", "10000", "60"),
    "30 ms": ("./one", "10000", "1400"),
    "memory": ("./one", "8000000", "10"),
    "threads": ("./team", "3000000", "100"),
    "barriers": ("./team", "10000", "10000"),
    "Python": (sys.executable, "-c", "sum(k * k for k in range(20_000_000))"),
    "pauses": ("sh", "-c", "for k in 1 2 3; do ./one 10000 1400; sleep 0.1; done"),
}


@contextmanager
def endless_loops(count: int) -> Iterator[None]:
    """Run so many endless loops during the block, in a session of their own."""
    script = f"for k in $(seq {count}); do while :; do :; done & done; wait"
    loops = subprocess.Popen(["sh", "-c", script], start_new_session=True)
    try:
        yield
    finally:
        os.killpg(loops.pid, signal.SIGKILL)
        loops.wait()


def idle_s(command: tuple[str, ...]) -> float:
    """Return the least wall time of some runs of a program, ahead of other work if allowed."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except PermissionError:
        print("no right to real-time priority: the least time of busy runs stands for idle ones")
    try:
        first_s = run_one(Order(command, os.environ)).wall_s
        repeats = 9 if first_s < 0.2 else 2
        return min(first_s, *(run_one(Order(command, os.environ)).wall_s for _ in range(repeats)))
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def print_shares(suite: Suite) -> bool:
    """Print the processor share in ten runs; return whether all are within the bar."""
    runs = [suite.bench("flops_f64", seconds=0.02).details for _ in range(SHARES)]
    shares = [(run["computed_s"] or 0.0) / (run["wanted_s"] or 1.0) for run in runs]
    print(f"processor share (bar: 1.00 +- {SHARE_OFF}):", *(f"{s:.3f}" for s in shares))
    return all(abs(share - 1) <= SHARE_OFF for share in shares)


def print_pilots(pilots: int) -> bool:
    """Print a row a program; return whether enough intervals hold the idle time."""
    held = of = 0
    print(f"{'program':10}{'idle s':>9}  pilots: seconds, factor either way (* outside)")
    for name, command in PROGRAMS.items():
        truth_s, row = idle_s(command), []
        for _ in range(pilots):
            options = PilotOptions(command, collectors=("proc",), show_output=False, in_place=True)
            runtime = run_pilot(options).runtime
            if runtime is None:
                raise SystemExit(f"{name}: the program failed")
            factor = math.exp(NORMAL_90 * (runtime.noise or 0.03))
            inside = truth_s / factor <= runtime.median_s <= truth_s * factor
            held, of = held + inside, of + 1
            row.append(f"{runtime.median_s:.4f} {factor:.2f}{'' if inside else '*'}")
        print(f"{name:10}{truth_s:9.4f}  {'   '.join(row)}", flush=True)
    print(f"held {held} of {of} (bar: {math.ceil(HELD * of)})")
    return held >= HELD * of


def main() -> int:
    """Print both bars; 1 where one is missed."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--loops", type=int, default=30)
    words.add_argument("--pilots", type=int, default=3)
    options = words.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="berth-busy-") as scratch:
        os.chdir(scratch)
        Path("work.c").write_text(SOURCE)
        for program, flags in (("one", ()), ("team", ("-fopenmp",))):
            subprocess.run(["cc", "-O2", *flags, "work.c", "-o", program], check=True)
        suite = build_suite()
        with endless_loops(options.loops):
            good = print_shares(suite) & print_pilots(options.pilots)
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
