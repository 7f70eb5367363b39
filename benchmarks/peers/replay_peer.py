"""The replay beside AccaSim 1.1.3: the same jobs under FCFS and EASY, start by start, and how fast.

``make replay-peer``, or ``python benchmarks/peers/replay_peer.py TRACE.swf.gz --python PYTHON``:
the Python of an environment with ``accasim==1.1.3`` from PyPI. Bars: the same starts, or each
difference explained by a rule of AccaSim's; at least 50 times as fast on the same 5,000 jobs.

AccaSim's EASY has three rules of its own, each of which ``Rules`` can switch on or off:

- ``fills``: behind a blocked job every job starts that fits now, whatever it delays (its
  allocator is given no reserved nodes);
- ``holds``: the blocked job is not tried before the start that was foreseen for it, even if there
  is room;
- ``keeps``: that start is foreseen once, when the job blocks, and not again.

With all three the reference below starts every job when AccaSim does; with none, when the replay
does: no other difference is left.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from berth.plugin.history.files import lines_of, read_swf
from berth.plugin.replay.past import trace_of_jobs
from berth.policies.replay import Backfill, Settings, Trace, one_pool, replay, trace_of

BAR = 50.0
JOBS, CORES, CROWDED = 5_000, 8_192, 1_024
WORKER = Path(__file__).with_name("accasim_worker.py")


@dataclass(frozen=True)
class Rules:
    """Which of AccaSim's rules hold."""

    fills: bool = False
    holds: bool = False
    keeps: bool = False


ACCASIM = Rules(True, True, True)


def trace_for(file: Path, jobs: int, cores: int) -> Trace:
    """The first jobs in whole seconds, none longer than it asked for, none wider than the pool."""
    found = trace_of_jobs(read_swf(lines_of(file), "replay").jobs.values())
    first = found.rows(np.arange(min(jobs, len(found))))
    limit = np.maximum(np.where(np.isnan(first.limit_s), 86_400.0, first.limit_s), 1.0)
    return trace_of(
        np.floor(first.submit_s - first.submit_s[0]),
        np.clip(np.floor(first.runtime_s), 1.0, limit),
        np.minimum(first.cores, cores),
        limit_s=limit,
        queues=("all",),
    )


def written(trace: Trace) -> str:
    """In the Standard Workload Format; jobs are numbered from 1."""
    rows = zip(trace.submit_s, trace.runtime_s, trace.cores, trace.limit_s, strict=True)
    return "".join(
        f"{n} {submit:.0f} -1 {run:.0f} {cores} -1 -1 {cores} {limit:.0f} -1 1 1 1 -1 1 1 -1 -1\n"
        for n, (submit, run, cores, limit) in enumerate(rows, 1)
    )


def starts_by_rules(trace: Trace, cores: int, rules: Rules) -> list[float]:
    """EASY, with the rules of AccaSim's that are asked for. Written for its plainness."""
    need, run, plan = trace.cores.tolist(), trace.runtime_s.tolist(), trace.limit_s.tolist()
    submit = trace.submit_s.tolist()
    starts = [float("nan")] * len(submit)
    running: dict[int, float] = {}
    queue: list[int] = []
    free, coming, blocked, foreseen = cores, 0, -1, float("inf")
    while coming < len(submit) or running or queue:
        ends = min((starts[i] + run[i] for i in running), default=float("inf"))
        now = min(ends, submit[coming] if coming < len(submit) else float("inf"))
        if now == float("inf"):  # a job is held, and nothing else happens any more
            now = foreseen
        for i in [i for i in running if starts[i] + run[i] <= now]:
            free += need[i]
            del running[i]
        while coming < len(submit) and submit[coming] <= now:
            queue.append(coming)
            coming += 1

        def start(i: int, now: float = now) -> None:
            nonlocal free
            starts[i], running[i] = now, now + plan[i]
            free -= need[i]
            queue.remove(i)

        tried = not (rules.holds and blocked >= 0 and now < foreseen)
        while tried and queue and need[queue[0]] <= free:
            start(queue[0])
            blocked = -1
        if queue and tried and (blocked != queue[0] or not rules.keeps):
            blocked = queue[0]
            foreseen, spare = _foreseen(need[blocked], free, running, need)
        elif queue:
            _, spare = _foreseen(need[queue[0]], free, running, need)
        for i in queue[1:]:
            if need[i] > free:
                continue
            if rules.fills or now + plan[i] <= foreseen:
                start(i)
            elif need[i] <= spare:
                spare -= need[i]
                start(i)
    return starts


def _foreseen(
    wanted: int, free: int, running: dict[int, float], need: Sequence[int]
) -> tuple[float, int]:
    """When there is room by the planned ends, and what is left beside it then."""
    for moment in sorted(set(running.values())):
        free_then = free + sum(need[i] for i, end in running.items() if end <= moment)
        if free_then >= wanted:
            return moment, free_then - wanted
    return float("inf"), 0


def by_accasim(python: str, trace: Trace, cores: int, scheduler: str) -> tuple[list[float], float]:
    """``(starts, processor seconds)``."""
    with tempfile.TemporaryDirectory() as folder:
        jobs, output = Path(folder, "jobs.swf"), Path(folder, "starts.json")
        jobs.write_text(written(trace))
        subprocess.run(
            [python, str(WORKER), str(jobs), str(cores), scheduler, str(output)],
            check=True, capture_output=True,
        )  # fmt: skip
        found = json.loads(output.read_text())
    return [found["starts"][str(n)] for n in range(1, len(trace) + 1)], found["seconds"]


def by_replay(trace: Trace, cores: int, backfill: Backfill) -> tuple[list[float], float]:
    """``(starts, processor seconds)``, compiled where numba is installed; compiling not counted."""
    settings = Settings(backfill, compiled=None if len(trace) >= JOBS else False)
    replay(trace, one_pool(cores), settings)
    began = time.process_time()
    done = replay(trace, one_pool(cores), settings)
    return done.start_s.tolist(), time.process_time() - began


def differing(a: Sequence[float], b: Sequence[float]) -> int:
    """Jobs that start at another second."""
    return sum(x != y for x, y in zip(a, b, strict=True))


def compared(python: str, trace: Trace, cores: int) -> list[str]:
    """Lines of the report for one pool."""
    fifo, fifo_s = by_accasim(python, trace, cores, "fifo")
    easy, easy_s = by_accasim(python, trace, cores, "easy")
    own_fifo, own_fifo_s = by_replay(trace, cores, Backfill.FCFS)
    own_easy, own_easy_s = by_replay(trace, cores, Backfill.EASY)
    submit = trace.submit_s.tolist()

    def wait(starts: Sequence[float]) -> str:
        return f"{np.mean(np.array(starts) - submit):,.0f} s"

    lines = [
        f"{len(trace):,} jobs on {cores:,} cores",
        f"  FCFS: {differing(fifo, own_fifo)} starts differ; mean wait {wait(fifo)}, "
        f"replay {wait(own_fifo)}; {fifo_s / own_fifo_s:,.0f} times as fast "
        f"({fifo_s:.2f} s and {own_fifo_s:.4f} s of processor time)",
        f"  EASY: {differing(easy, own_easy)} starts differ; mean wait {wait(easy)}, "
        f"replay {wait(own_easy)}; {easy_s / own_easy_s:,.0f} times as fast "
        f"({easy_s:.2f} s and {own_easy_s:.4f} s; bar {BAR:.0f})",
    ]
    for what, rules, other in (
        ("all of AccaSim's rules, beside AccaSim", ACCASIM, easy),
        ("none of them, beside the replay", Rules(), own_easy),
        ("fills alone, beside AccaSim", Rules(fills=True), easy),
        ("holds and keeps alone, beside AccaSim", Rules(holds=True, keeps=True), easy),
    ):
        count = differing(starts_by_rules(trace, cores, rules), other)
        lines.append(f"    reference with {what}: {count} starts differ")
    return lines


def main() -> None:
    """Print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("trace", type=Path)
    parser.add_argument("--python", required=True, help="of an environment with accasim 1.1.3")
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--cores", type=int, nargs="+", default=[CORES, CROWDED])
    asked = parser.parse_args()
    for cores in asked.cores:
        trace = trace_for(asked.trace, asked.jobs, cores)
        print("\n".join(compared(asked.python, trace, cores)))


if __name__ == "__main__":
    main()
