"""The same jobs on a real Slurm and in a replay with its configuration: waits and makespan.

``make replay-fidelity`` runs 500 jobs, all times scaled down, three times under each of Slurm's
schedulers (FIFO and backfill) on a private cluster of one node whose cores are a pool. The replay
is given what accounting has: submission, run time, limit, cores. What Slurm itself costs is
measured on other jobs first and set in the replay: how long a job takes from its allocation until
it begins, and from its end until its cores are free, and that slurmctld starts jobs once a second.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from one_pool_cluster import CORES, OnePool
from slurm_cluster import USER, cluster, wait_until

from berth.plugin.slurm.records import moment_s
from berth.policies.replay import Backfill, Settings, metrics, one_pool, replay, trace_of
from berth.policies.replay.trace import Floats, Ints

MODES = {False: Backfill.FCFS, True: Backfill.REPLANNED}
"""Of the replay, by whether Slurm backfills."""
CYCLE_S = 1.0
"""slurmctld looks for jobs to start once a second; so are ``bf_interval``, ``bf_resolution``."""
SCRIPT = '#!/bin/sh\ndate +%s.%N > "$1.begin"\nsleep "$2"\ndate +%s.%N > "$1.end"\n'
_ALLOCATED = ("sched: Allocate JobId=", "Started JobId=")
_DONE = re.compile(r"_job_complete: JobId=(\d+) done")
_SUBMITTED = re.compile(r"_slurm_rpc_submit_batch_job: JobId=(\d+) ")


class Workload(NamedTuple):
    """[jobs] what is to be submitted; times in seconds."""

    submit_s: Floats
    run_s: Floats
    cores: Ints
    limit_minutes: Ints


def workload(jobs: int, *, seed: int = 0, load: float = 1.5, median_s: float = 2.0) -> Workload:
    """Powers of two of cores, times spread over a factor of 30; more than the cores can do."""
    rng = np.random.default_rng(seed)
    run = np.clip(rng.lognormal(np.log(median_s), 0.8, jobs), 0.3, 12.0)
    cores = 2 ** rng.integers(0, 6, jobs)
    gap = float((run * cores).mean()) / CORES / load
    minutes = rng.integers(1, 6, jobs)
    return Workload(np.cumsum(rng.exponential(gap, jobs)), run, cores, minutes)


@dataclass(frozen=True)
class Ran:
    """[jobs] what Slurm did, in Unix seconds."""

    submit_s: Floats
    allocated_s: Floats
    begin_s: Floats
    end_s: Floats
    done_s: Floats

    @property
    def mean_wait_s(self) -> float:
        """From submission to the first line of the script."""
        return float((self.begin_s - self.submit_s).mean())

    @property
    def makespan_s(self) -> float:
        """From the first submission to the last end."""
        return float(self.end_s.max() - self.submit_s.min())

    @property
    def overheads_s(self) -> tuple[float, float]:
        """Medians: allocation to begin, end to cores free."""
        begin, end = self.begin_s - self.allocated_s, self.done_s - self.end_s
        return float(np.median(begin)), max(0.0, float(np.median(end)))


def on_slurm(slurm: OnePool, jobs: Workload, *, timeout_s: float = 1800.0) -> Ran:
    """Submit them at their times and wait for the last to end."""
    script = slurm.work / "job.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    ids: list[int] = []
    marks = slurm.work / f"run{time.monotonic_ns()}"
    marks.mkdir(mode=0o777)
    marks.chmod(0o777)
    began = time.monotonic()
    for number in range(len(jobs.submit_s)):
        time.sleep(max(0.0, began + float(jobs.submit_s[number]) - time.monotonic()))
        done = slurm.run(
            "sbatch", "--parsable", "--output=/dev/null", "--ntasks=1",
            f"--cpus-per-task={jobs.cores[number]}", f"--time={jobs.limit_minutes[number]}",
            str(script), str(marks / str(number)), f"{jobs.run_s[number]:.3f}", user=USER,
        )  # fmt: skip
        ids.append(int(done.stdout.strip()))
    wait_until(
        lambda: len(_DONE.findall(slurm.moments_file.read_text())) >= max(ids),
        "all jobs have ended",
        timeout_s,
    )

    def of(kind: str) -> Floats:
        return np.array([float((marks / f"{n}.{kind}").read_text()) for n in range(len(ids))])

    submitted, allocated, done_s = _moments(slurm.moments_file.read_text())
    return Ran(
        np.array([submitted[one] for one in ids]), np.array([allocated[one] for one in ids]),
        of("begin"), of("end"), np.array([done_s[one] for one in ids]),
    )  # fmt: skip


def _moments(log: str) -> tuple[dict[int, float], dict[int, float], dict[int, float]]:
    """When slurmctld took each job, allocated it and saw its end: to the millisecond."""
    submitted: dict[int, float] = {}
    allocated: dict[int, float] = {}
    done: dict[int, float] = {}
    for line in log.splitlines():
        moment = re.match(r"\[(\S+?)(\.\d+)\]", line)
        whole = None if moment is None else moment_s(moment[1], utc=False)
        if moment is None or whole is None:
            continue
        at_s = whole + float(moment[2])
        started = any(mark in line for mark in _ALLOCATED)
        if (found := _SUBMITTED.search(line)) is not None:
            submitted[int(found[1])] = at_s
        elif (found := _DONE.search(line)) is not None:
            done[int(found[1])] = at_s
        elif started and (found := re.search(r"JobId=(\d+)", line)) is not None:
            allocated[int(found[1])] = at_s
    return submitted, allocated, done


def in_replay(
    jobs: Workload, ran: Ran, overheads_s: tuple[float, float], *, backfill: bool
) -> tuple[float, float]:
    """(mean wait, makespan) of a replay of what was submitted and how long each job ran."""
    trace = trace_of(
        ran.submit_s, ran.end_s - ran.begin_s, jobs.cores, limit_s=jobs.limit_minutes * 60.0,
        queues=("all",),
    )  # fmt: skip
    settings = Settings(
        MODES[backfill], cycle_s=CYCLE_S, backfill_s=CYCLE_S, resolution_s=CYCLE_S,
        start_overhead_s=overheads_s[0], end_overhead_s=overheads_s[1], compiled=False,
    )  # fmt: skip
    one_node = replace(one_pool(CORES), pooled=False)  # Slurm's reservations hold whole nodes
    found = metrics(replay(trace, one_node, settings), intervals=False)
    return found.mean_wait_s, found.makespan_s


def compare(jobs: Workload, runs: int, *, backfill: bool) -> None:
    """Print a line a run, and whether the bar is met."""
    with cluster(OnePool, backfill=backfill) as slurm:
        overheads_s = on_slurm(slurm, workload(30, seed=1, load=1.0)).overheads_s
        print(
            f"sched/{'backfill' if backfill else 'builtin'}, {len(jobs.run_s)} jobs; start "
            f"overhead {overheads_s[0]:.3f} s, end overhead {overheads_s[1]:.3f} s", flush=True,
        )  # fmt: skip
        found = []
        for number in range(runs):
            ran = on_slurm(slurm, jobs)
            replayed = in_replay(jobs, ran, overheads_s, backfill=backfill)
            found.append((ran.mean_wait_s, replayed[0], ran.makespan_s, replayed[1]))
            wait, wait_there, span, span_there = found[-1]
            print(
                f"  run {number + 1}: mean wait {wait:.2f} s, replay {wait_there:.2f} s "
                f"({wait_there / wait - 1:+.1%}); makespan {span:.1f} s, replay {span_there:.1f} s "
                f"({span_there / span - 1:+.1%})", flush=True,
            )  # fmt: skip
    for name, here, there in (("mean wait", 0, 1), ("makespan", 2, 3)):
        real = [one[here] for one in found]
        mean = statistics.fmean(real)
        off = abs(statistics.fmean(one[there] for one in found) / mean - 1)
        spread = (max(real) - min(real)) / mean
        met = "met" if off <= max(0.02, spread) else "NOT met"
        print(f"  {name}: off by {off:.1%}, Slurm's own spread {spread:.1%}: {met}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    for backfill in MODES:
        compare(workload(asked.jobs), asked.runs, backfill=backfill)


if __name__ == "__main__":
    main()
