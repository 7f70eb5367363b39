"""Processor time of a tune: trials on a month of 37,000 jobs, by local workers.

``python benchmarks/tune.py TRACE.swf.gz [--trials 100] [--workers 2]``. Bars, on 2 cores: 100
trials in 5 minutes, 1,000 in 30; the part of the trials that was stopped early is printed. Jobs
are the first of the trace, their times elsewhere a made-up speed-up for each user.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from berth.plugin.history.files import lines_of
from berth.plugin.history.swf import read_swf
from berth.plugin.replay.past import trace_of_jobs

MONTH_S = 30 * 86_400.0
PLATFORMS = ("broadwell-bdw", "cascadelake-6248", "epyc-genoa-9654")
CORES = 8_192
SITE = """schema = "berth.site/1"
[policy]
objective = "fastest"
"""
PLACE = """[[candidates]]
name = "{name}"
platform = "{name}"
partition = "{name}"
nodes = {nodes}
cores_per_node = 32
"""


def write(folder: Path, file: Path, count: int) -> None:
    """A site of three kinds of nodes, and the table of jobs."""
    nodes = CORES // 32 // len(PLATFORMS)
    places = "".join(PLACE.format(name=name, nodes=nodes) for name in PLATFORMS)
    (folder / "berth.toml").write_text(SITE + places)
    trace = trace_of_jobs(read_swf(lines_of(file), "tune").jobs.values())
    trace = trace.rows(np.flatnonzero(trace.cores <= nodes * 32)[:count])
    submit = (trace.submit_s - trace.submit_s[0]) * MONTH_S / np.ptp(trace.submit_s)
    speed = np.exp(np.random.default_rng(0).normal(0.0, 0.5, (len(trace.users), len(PLATFORMS))))
    # As busy as four fifths of the site.
    work = trace.runtime_s * trace.cores
    times = (trace.runtime_s * 0.8 * CORES * MONTH_S / work.sum())[:, None] / speed[trace.user]
    lines = ["submit_s,user,partition,cores," + ",".join(f"seconds@{name}" for name in PLATFORMS)]
    lines += [
        f"{at:.0f},u{user},{PLATFORMS[0]},{cores}," + ",".join(f"{one:.1f}" for one in row)
        for at, user, cores, row in zip(
            submit.tolist(), trace.user.tolist(), trace.cores.tolist(), times.tolist(), strict=True
        )
    ]
    (folder / "jobs.csv").write_text("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("trace", type=Path)
    parser.add_argument("--jobs", type=int, default=37_000)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, asked.trace, asked.jobs)
        began = time.perf_counter()
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("berth")), "replay", "tune",
                str(folder / "jobs.csv"), "--site", str(folder / "berth.toml"),
                "--folder", str(folder / "tune"),
                "--trials", str(asked.trials), "--workers", str(asked.workers), "--json",
            ],
            stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        took_s = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    trials = json.loads(done.stdout)["trials"]
    ended = trials["done"] + trials["stopped_early"]
    print(
        f"{ended} trials on {asked.jobs:,} jobs: {used.ru_utime + used.ru_stime:,.0f} s of "
        f"processor time, {took_s:,.0f} s with {asked.workers} workers; "
        f"{trials['stopped_early'] / ended:.0%} stopped early, {trials['failed']} lost or failed"
    )


if __name__ == "__main__":
    main()
