"""Whether predicted times hold where the pilot ran on a busy machine, in at most nine minutes.

Pilots real programs of about a second each by their native runs, then runs all of them again and
again until the time is over (``--minutes``, 9 by default). A later run counts by its time without
the waits for other work: what a job takes on cores of its own. Bar: the 90 % interval holds for 17
to 19 of 20, and its upper end is at most twice its lower one. Beside it: the interval by the
measured wall times and their spread, and the noise constant (``plausible.BUSY_NOISE``) that one
half of the programs would choose, with what it gives on the other half. ``--load N`` keeps N
processors busy meanwhile, half of them with memory; without it, keep the machine as busy as you
like to know. The load is printed.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pilot_cost import KINDS
from real_programs import written_text

from berth.pilot import plausible
from berth.pilot.launch import Order, Outcome, run_one
from berth.pilot.native import runtime_of
from berth.pilot.plausible import contention, noise_of, own_time_s
from berth.predictor.core.intervals import NORMAL_90
from berth.predictor.families.program.estimate import LEAST_LOG_WIDTH

NATIVE_RUNS, MOST_ROUNDS, LEAST_TO_REFIT = 3, 6, 6
TOO_LONG = ("sqlite", "numpy", "gcc")
LOWEST, HIGHEST, WIDEST = 17 / 20, 19 / 20, 2.0
CONSTANTS = [round(0.02 * k, 2) for k in range(1, 26)]
SPIN = "while True: pass"
STREAM = "a = bytearray(2**27)\nwhile True: a[:2**26] = a[2**26:]"

Runs = Mapping[str, Sequence[Outcome]]


@contextmanager
def load_of(processors: int) -> Iterator[None]:
    """Keep so many processors busy during the block, every other one with memory."""
    programs = [(SPIN, STREAM)[k % 2] for k in range(processors)]
    running = [subprocess.Popen([sys.executable, "-c", program]) for program in programs]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def intervals(runs: Sequence[Outcome]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return (seconds, half width in log) with and without what the machine's load tells."""
    times_s = [own_time_s(run) for run in runs]
    noise = noise_of(times_s, contention(runs[0])) or 0.0
    plain = runtime_of([run.wall_s for run in runs])
    spread = 2 * plain.spread_s / plain.median_s
    return (
        (statistics.median(times_s), math.hypot(LEAST_LOG_WIDTH, NORMAL_90 * noise)),
        (plain.median_s, max(LEAST_LOG_WIDTH, spread)),
    )


def held(pilots: Runs, later: Runs, *, plain: bool = False) -> tuple[int, int, float]:
    """Return how many later times are inside their interval, of how many, and its median factor."""
    inside, of, factors = 0, 0, []
    for name, runs in pilots.items():
        seconds, width = intervals(runs)[plain]
        factors.append(math.exp(2 * width))
        of += len(later[name])
        inside += sum(abs(math.log(own_time_s(run) / seconds)) <= width for run in later[name])
    return inside, of, statistics.median(factors)


def chosen_on(pilots: Runs, later: Runs) -> float:
    """Return the smallest noise constant with which 90 % of the later times are inside."""
    before = plausible.BUSY_NOISE
    try:
        for constant in CONSTANTS:
            plausible.BUSY_NOISE = constant
            inside, of, _ = held(pilots, later)
            if inside >= 0.9 * of:
                return constant
        return CONSTANTS[-1]
    finally:
        plausible.BUSY_NOISE = before


def print_refit(pilots: Runs, later: Runs) -> None:
    """Print the constant that each half of the programs chooses, tried on the other half."""
    names = list(pilots)
    before = plausible.BUSY_NOISE
    for mine, other in ((names[::2], names[1::2]), (names[1::2], names[::2])):
        constant = chosen_on({n: pilots[n] for n in mine}, {n: later[n] for n in mine})
        plausible.BUSY_NOISE = constant
        inside, of, factor = held({n: pilots[n] for n in other}, {n: later[n] for n in other})
        plausible.BUSY_NOISE = before
        print(f"constant {constant:.2f} chosen on {', '.join(mine)}:")
        print(f"  on the other {len(other)} programs held {inside} of {of}, factor {factor:.2f}")


def main() -> int:
    """Print a row a program, then the bars; 1 where one is missed."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--minutes", type=float, default=9.0)
    words.add_argument("--load", type=int, default=0)
    options = words.parse_args()
    until = time.monotonic() + 60 * options.minutes
    text = written_text(9_000_000)
    with tempfile.TemporaryDirectory(prefix="berth-busy-") as scratch, load_of(options.load):
        orders: dict[str, Order] = {}
        for name, kind in KINDS.items():
            if shutil.which(kind.needs) is not None and name not in TOO_LONG:
                folder = Path(scratch) / name
                folder.mkdir()
                (folder / "text").write_text(text)
                (folder / "words").write_text(text.replace(" ", "\n"))
                command = tuple(kind.command(folder))
                orders[name] = Order(command, dict(os.environ), cwd=str(folder))
        print(f"load {os.getloadavg()[0]:.1f}", flush=True)
        pilots: dict[str, list[Outcome]] = {}
        for name, order in orders.items():
            if time.monotonic() < until - 30 * options.minutes:  # half of the time for the pilots
                pilots[name] = [run_one(order) for _ in range(NATIVE_RUNS)]
        later: dict[str, list[Outcome]] = {name: [] for name in pilots}
        for name in MOST_ROUNDS * list(pilots):
            if time.monotonic() < until:
                later[name].append(run_one(orders[name]))
        print(f"load {os.getloadavg()[0]:.1f}")
    if left := sorted(orders.keys() - {name for name in later if later[name]}):
        print(f"left out, as the time was over: {', '.join(left)}")
    pilots = {name: runs for name, runs in pilots.items() if later[name]}
    print(f"{'program':9}{'wall s':>8}{'own s':>8}{'factor':>8}  later runs s (* outside)")
    for name, runs in pilots.items():
        (own_s, width), (wall_s, _) = intervals(runs)
        later_s = [own_time_s(run) for run in later[name]]
        marked = (f"{s:.2f}{'' if abs(math.log(s / own_s)) <= width else '*'}" for s in later_s)
        print(f"{name:9}{wall_s:8.2f}{own_s:8.2f}{math.exp(2 * width):8.2f}  {' '.join(marked)}")
    inside, of, factor = held(pilots, later)
    print(f"held {inside} of {of}, factor {factor:.2f} (median)")
    print(f"by the wall times and their spread: held {held(pilots, later, plain=True)[0]}")
    print(f"bars: {LOWEST:.0%} to {HIGHEST:.0%}, factor at most {WIDEST:g}")
    if len(pilots) >= LEAST_TO_REFIT:
        print_refit(pilots, later)
    return int(not LOWEST <= inside / of <= HIGHEST or factor > WIDEST)


if __name__ == "__main__":
    sys.exit(main())
