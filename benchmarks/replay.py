"""Jobs a second of the replay: EASY and conservative on RICC, and growth with synthetic jobs.

``python benchmarks/replay.py TRACE.swf.gz [--jobs N]``. Bars: EASY at least 30,000 jobs/s and at
most 1 GB, conservative at least 5,000 jobs/s, on one core; compiling is not counted. With
predicted times in the backfill: a quarter off either way, within the request.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import numpy as np

from berth.plugin.history.files import lines_of
from berth.plugin.history.swf import read_swf
from berth.plugin.replay.traces import trace_of_jobs
from berth.policies.replay import Backfill, Replayed, Settings, Trace, one_pool, replay, trace_of

CORES = 8_192


def ricc(file: Path, jobs: int) -> Trace:
    """The first jobs of the trace."""
    found = trace_of_jobs(read_swf(lines_of(file), "replay").jobs.values())
    return found.rows(np.arange(min(jobs, len(found))))


def synthetic(jobs: int) -> Trace:
    """Arrivals at four fifths of what the pool can do."""
    rng = np.random.default_rng(0)
    run = np.ceil(rng.lognormal(5.0, 1.5, jobs))
    cores = 2 ** rng.integers(0, 8, jobs)
    gap = float((run * cores).mean()) / CORES / 0.8
    submit = np.cumsum(rng.exponential(gap, jobs))
    return trace_of(submit, run, cores, limit_s=run * rng.integers(1, 6, jobs), queues=("all",))


def timed(name: str, trace: Trace, backfill: Backfill) -> Replayed:
    """Replay once and print the rate, by processor time."""
    cluster = one_pool(CORES)
    settings = Settings(backfill, compiled=True)
    replay(trace.rows(np.arange(min(50, len(trace)))), cluster, settings)  # compiles
    began = time.process_time()
    found = replay(trace, cluster, settings)
    seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{name:<34} {len(trace):>10,} jobs {seconds:8.2f} s {len(trace) / seconds:>10,.0f} jobs/s"
        f"  mean wait {np.nanmean(found.wait_s):,.0f} s  peak {memory:.2f} GiB",
        flush=True,
    )
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("trace", type=Path)
    parser.add_argument("--jobs", type=int, default=250_000)
    parser.add_argument("--conservative", type=int, default=20_000)
    parser.add_argument("--synthetic", type=int, default=1_000_000)
    asked = parser.parse_args()
    trace = ricc(asked.trace, asked.jobs)
    timed("RICC, EASY", trace, Backfill.EASY)
    timed("RICC, FCFS", trace, Backfill.FCFS)
    first = trace.rows(np.arange(min(asked.conservative, len(trace))))
    timed("RICC, conservative", first, Backfill.CONSERVATIVE)
    size = asked.synthetic
    while size >= 1_000:
        timed("synthetic, EASY", synthetic(size), Backfill.EASY)
        size //= 10


if __name__ == "__main__":
    main()
