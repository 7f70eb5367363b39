"""Jobs a second of the replay: schedulers on RICC, the Decider in the loop, synthetic jobs.

``python benchmarks/replay.py TRACE.swf.gz [--jobs N] [--synthetic 10000000]``. Bars: EASY at least
30,000 jobs/s and at most 1 GB, the production Decider with 20
places at least 12,000 jobs/s, on one core; compiling is not counted. Time grows at most as n log n
with synthetic jobs. ``--only decider`` (easy, synthetic): that part alone.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from berth.plugin.history.files import lines_of
from berth.plugin.history.swf import read_swf
from berth.plugin.replay.past import trace_of_jobs
from berth.policies.replay import (
    Backfill,
    Cluster,
    NodeKind,
    Partition,
    Replayed,
    Settings,
    Trace,
    one_pool,
    replay,
    trace_of,
)
from berth.policies.replay.deciding import Decided
from berth.policies.replay.predicted import ForecastColumns
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate

CORES = 8_192
PLACES, PROGRAMS = 20, 200
_WEEK_S = 7 * 86_400.0
PARTS = ("easy", "decider", "synthetic")


def ricc(file: Path, jobs: int) -> Trace:
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


def placed(jobs: int, objective: str) -> None:
    """Every job asks the Decider with ``PLACES`` candidates; print the rate and a digest.

    Jobs are of ``PROGRAMS`` programs, each with a forecast of its own, as in production.
    """
    trace = programs(jobs)
    names = [f"p{n}" for n in range(PLACES)]
    cluster = Cluster(
        tuple(NodeKind(name, 64, 64) for name in names),
        tuple(Partition(name, (name,), _WEEK_S) for name in names),
        pooled=True,
    )
    candidates = [
        Candidate(name, name, name, cores_per_node=64, nodes=64, max_time_s=_WEEK_S)
        for name in names
    ]
    of = {name: place for place, name in enumerate(names)}
    settings = Settings(Backfill.EASY, compiled=True)

    def run(part: Trace) -> Replayed:
        predictions = ForecastColumns(part.runtime_on, candidates, spread=1.0)
        policy = PolicySettings(objective=objective)
        decided = Decided(candidates, of, policy, predictions, trace=part, cluster=cluster)
        return replay(part, cluster, settings, decided)

    run(trace.rows(np.arange(min(50, jobs))))  # compiles
    began = time.process_time()
    found = run(trace)
    seconds = time.process_time() - began
    same = hashlib.sha256(found.partition.tobytes() + found.start_s.tobytes()).hexdigest()
    print(
        f"{f'Decider, {PLACES} places, {objective}':<34} {jobs:>10,} jobs {seconds:8.2f} s "
        f"{jobs / seconds:>10,.0f} jobs/s  moved {found.counts.moved:,}  decisions {same[:12]}",
        flush=True,
    )


def programs(jobs: int) -> Trace:
    """Jobs of some programs, at four fifths of what the places can do, with times on each."""
    rng = np.random.default_rng(0)
    program = rng.integers(0, PROGRAMS, jobs)
    base, cores = np.ceil(rng.lognormal(6.0, 1.3, PROGRAMS)), 2 ** rng.integers(0, 6, PROGRAMS)
    times = base[:, None] * np.exp(rng.normal(0.0, 0.5, (PROGRAMS, PLACES)))
    gap = float(times.mean() * cores.mean()) / (64 * 64 * PLACES) / 0.8
    trace = trace_of(
        np.cumsum(rng.exponential(gap, jobs)), times[program, 0], cores[program],
        limit_s=3.0 * times.max(axis=1)[program], queues=tuple(f"p{n}" for n in range(PLACES)),
    )  # fmt: skip
    return replace(trace, runtime_on={f"p{n}": times[program, n] for n in range(PLACES)})


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
    parser = argparse.ArgumentParser()
    parser.add_argument("trace", type=Path)
    parser.add_argument("--jobs", type=int, default=250_000)
    parser.add_argument("--placed", type=int, default=30_000)
    parser.add_argument("--synthetic", type=int, default=1_000_000)
    parser.add_argument("--only", action="append", choices=PARTS, default=[])
    asked = parser.parse_args()
    parts = asked.only or PARTS
    if "easy" in parts:
        trace = ricc(asked.trace, asked.jobs)
        timed("RICC, EASY", trace, Backfill.EASY)
        timed("RICC, FCFS", trace, Backfill.FCFS)
    for objective in ("fastest", "earliest") if "decider" in parts else ():
        placed(asked.placed, objective)
    size = asked.synthetic if "synthetic" in parts else 0
    while size >= 1_000:
        timed("synthetic, EASY", synthetic(size), Backfill.EASY)
        size //= 10


if __name__ == "__main__":
    main()
