"""What the Slurm filter adds to ``sbatch``: pairs of a no-op Lua and the filter, in one slurmctld.

A private cluster runs a job_submit.lua that sends jobs named ``noop`` through an empty function
and all others through Berth's filter, which asks a real ``berth serve`` and moves the job. Each
pair is two ``sbatch --hold``, one after the other, in rotating order; the added time is the
difference within the pair. A third, again a no-op, shows what of it is the machine's noise. Needs
Slurm's daemons and root.

    python benchmarks/sbatch_latency.py [--pairs 5000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "slurm"), str(ROOT / "tests" / "support")]

from real_daemon import real_daemon  # noqa: E402
from slurm_cluster import (  # noqa: E402
    USER,
    Cluster,
    ClusterUnavailable,
    cluster,
    require_slurm,
    tool_path,
)

from berth.plugin.slurm.filter import FILTER_PATH  # noqa: E402

BAR_P50_MS = 0.5
BAR_P99_MS = 3.0
WARM_UP = 100
CLEAN_EVERY = 250

TWO_FILTERS = """\
dofile("{filter}")
local socket = require "socket"
local berth_submit = slurm_job_submit
local spent = {{}}
function slurm_job_submit(job_desc, part_list, submit_uid)
  local name = job_desc.name
  if name == "noop" then return slurm.SUCCESS end
  if name == "report" then
    local file = io.open("{timings}", "w")
    file:write(table.concat(spent, "\\n"))
    file:close()
    return slurm.SUCCESS
  end
  local begun = socket.gettime()
  local code = berth_submit(job_desc, part_list, submit_uid)
  spent[#spent + 1] = string.format("%.9f", socket.gettime() - begun)
  return code
end
return slurm.SUCCESS
"""


@contextmanager
def as_user(name: str) -> Iterator[None]:
    """Submit as an ordinary user: the processes started meanwhile are his."""
    entry = pwd.getpwnam(name)
    os.setresgid(entry.pw_gid, entry.pw_gid, 0)
    os.setresuid(entry.pw_uid, entry.pw_uid, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)


class Submitter:
    """Starts ``sbatch --hold`` with as little around it as can be, and times it."""

    def __init__(self, running: Cluster) -> None:
        self._sbatch = tool_path("sbatch")
        self._environment = running.environment
        self._script = str(running.work / "job.sh")
        Path(self._script).write_text("#!/bin/sh\n#SBATCH --ntasks=8\nsrun ./app\n")
        self._null = os.open(os.devnull, os.O_RDWR)

    def ms(self, name: str) -> float:
        """Milliseconds from fork to exit."""
        words = [self._sbatch, "--hold", "-p", "auto", "-J", name, "--comment=berth:stream",
                 "-o", "/dev/null", self._script]  # fmt: skip
        begun = time.perf_counter_ns()
        child = os.posix_spawn(
            self._sbatch,
            words,
            self._environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, self._null, fd) for fd in (0, 1, 2)],
        )
        _, status = os.waitpid(child, 0)
        took = (time.perf_counter_ns() - begun) / 1e6
        if status != 0:
            raise SystemExit("sbatch refused a job")
        return took


ORDERS = (("noop", "again", "job"), ("again", "job", "noop"), ("job", "noop", "again"))
"""Of the submissions of one round; ``again`` is a second no-op, whose difference is the noise."""


def measure(running: Cluster, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each submission, round by round."""
    submitter = Submitter(running)
    took: dict[str, list[float]] = {"noop": [], "again": [], "job": []}
    for index in range(WARM_UP + rounds):
        with as_user(USER):
            for kind in ORDERS[index % len(ORDERS)]:
                one = submitter.ms("job" if kind == "job" else "noop")
                if index >= WARM_UP:
                    took[kind].append(one)
        if index % CLEAN_EVERY == CLEAN_EVERY - 1:
            running.run("scancel", f"--user={USER}", "--state=PENDING", "--quiet")
    running.run("sbatch", "--hold", "-J", "report", "--wrap=true")
    return took


def quantile(values: Sequence[float], part: float) -> float:
    """Of sorted values, the one below which ``part`` of them lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def main() -> int:
    parser = argparse.ArgumentParser(description="What the filter adds to sbatch.")
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--json", type=Path, dest="json_file")
    given = parser.parse_args()
    try:
        require_slurm()
    except ClusterUnavailable as missing:
        print(f"skipped: {missing}")
        return 0
    with cluster(min_job_age_s=2) as running:
        running.set_job_submit(TWO_FILTERS.format(filter=FILTER_PATH, timings=running.timings))
        running.set_filter_config(socket=running.berth_socket)
        with real_daemon(running):
            took = measure(running, given.pairs)
        inside = [1000 * value for value in running.calls_s()][WARM_UP:]
    noop = took["noop"]
    added = [b - n for n, b in zip(noop, took["job"], strict=True)]
    rows = {
        "sbatch, no-op Lua": noop,
        "sbatch, Berth's filter": took["job"],
        "added, within the pair": added,
        "noise: no-op less no-op": [b - n for n, b in zip(noop, took["again"], strict=True)],
        "inside Lua, of it": inside,
    }
    print(f"{given.pairs} pairs of sbatch --hold; load {os.getloadavg()[0]:.2f}")
    print(f"{'milliseconds':<28}{'p50':>8}{'p90':>8}{'p99':>8}{'max':>8}")
    table = {}
    for name, values in rows.items():
        figures = [quantile(values, part) for part in (0.5, 0.9, 0.99)] + [max(values)]
        table[name] = dict(zip(("p50", "p90", "p99", "max"), figures, strict=True))
        print(f"{name:<28}" + "".join(f"{figure:8.2f}" for figure in figures))
    found = table["added, within the pair"]
    for key, bar in (("p50", BAR_P50_MS), ("p99", BAR_P99_MS)):
        verdict = "met" if found[key] <= bar else "MISSED"
        print(f"bar: added {key} <= {bar:g} ms: {found[key]:.2f} ms, {verdict}")
    print(f"mean added: {statistics.fmean(added):.2f} ms")
    if given.json_file:
        given.json_file.write_text(json.dumps({"pairs": given.pairs, "ms": table}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
