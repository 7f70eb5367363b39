"""Whether predicted times hold where the pilot ran on a busy machine.

Pilots each real program by its native runs, then runs all programs again, ``--rounds N`` times. A
later run counts by its time without the waits for other work: what a job takes on cores of its own.
Bar: the 90 % interval holds for 17 to 19 of 20, and its upper end is at most twice its lower one.
Beside it: the interval by the measured wall times and their spread. Keep the machine as busy as you
like to know; the load is printed.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from pilot_cost import KINDS
from real_programs import written_text

from berth.pilot.launch import Order, Outcome, run_one
from berth.pilot.native import runtime_of
from berth.pilot.plausible import contention, noise_of, own_time_s
from berth.predictor.core.intervals import NORMAL_90
from berth.predictor.families.program.estimate import LEAST_LOG_WIDTH

NATIVE_RUNS = 3
LOWEST, HIGHEST, WIDEST = 17 / 20, 19 / 20, 2.0


def intervals(runs: list[Outcome]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return (seconds, half width in log) with and without what the machine's load tells."""
    times_s = [own_time_s(run) for run in runs]
    noise = noise_of(times_s, contention(runs[0])) or 0.0
    plain = runtime_of([run.wall_s for run in runs])
    spread = 2 * plain.spread_s / plain.median_s
    return (
        (statistics.median(times_s), math.hypot(LEAST_LOG_WIDTH, NORMAL_90 * noise)),
        (plain.median_s, max(LEAST_LOG_WIDTH, spread)),
    )


def main() -> int:
    """Print a row a program, then the bars; 1 where one is missed."""
    words = sys.argv[1:]
    rounds = int(words[words.index("--rounds") + 1]) if "--rounds" in words else 2
    text = written_text(9_000_000)
    with tempfile.TemporaryDirectory(prefix="berth-busy-") as scratch:
        orders: dict[str, Order] = {}
        for name, kind in KINDS.items():
            if shutil.which(kind.needs) is not None:
                folder = Path(scratch) / name
                folder.mkdir()
                (folder / "text").write_text(text)
                (folder / "words").write_text(text.replace(" ", "\n"))
                command = tuple(kind.command(folder))
                orders[name] = Order(command, dict(os.environ), cwd=str(folder))
        print(f"load {os.getloadavg()[0]:.1f}")
        pilots = {
            name: [run_one(order) for _ in range(NATIVE_RUNS)] for name, order in orders.items()
        }
        later_s: dict[str, list[float]] = {name: [] for name in orders}
        for _ in range(rounds):
            for name, order in orders.items():
                later_s[name].append(own_time_s(run_one(order)))
    print(f"load {os.getloadavg()[0]:.1f}")
    print(f"{'program':9}{'wall s':>8}{'own s':>8}{'factor':>8}  later runs s (* outside)")
    factors, held, held_plain = [], 0, 0
    for name, runs in pilots.items():
        (own_s, width), (wall_s, plain_width) = intervals(runs)
        factors.append(math.exp(2 * width))
        inside = [abs(math.log(s / own_s)) <= width for s in later_s[name]]
        held += sum(inside)
        held_plain += sum(abs(math.log(s / wall_s)) <= plain_width for s in later_s[name])
        marked = (
            f"{s:.2f}{'' if ok else '*'}" for s, ok in zip(later_s[name], inside, strict=True)
        )
        print(f"{name:9}{wall_s:8.2f}{own_s:8.2f}{factors[-1]:8.2f}  {' '.join(marked)}")
    count, middle = rounds * len(pilots), statistics.median(factors)
    print(f"held {held} of {count}, factor {middle:.2f} (median)")
    print(f"by the wall times and their spread: held {held_plain}")
    print(f"bars: {LOWEST:.0%} to {HIGHEST:.0%}, factor at most {WIDEST:g}")
    return int(not LOWEST <= held / count <= HIGHEST or middle > WIDEST)


if __name__ == "__main__":
    sys.exit(main())
