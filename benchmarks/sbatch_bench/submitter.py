"""Many ``sbatch`` on a private cluster whose slurmctld asks a real ``berth serve``."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from real_daemon import real_daemon
from slurm_cluster import Cluster, ClusterUnavailable, cluster, require_slurm, tool_path

from berth.plugin.slurm.filter import FILTER_PATH

WARM_UP = 100
"""Submissions before those that count."""
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


def why_no_slurm() -> str | None:
    """What is missing for a private cluster; None: nothing."""
    try:
        require_slurm()
    except ClusterUnavailable as missing:
        return str(missing)
    return None


@contextmanager
def cluster_with(job_submit: str) -> Iterator[Cluster]:
    """A cluster and a daemon; that job_submit.lua has its ``{filter}`` and ``{timings}`` filled."""
    with cluster(min_job_age_s=2) as running:
        running.set_job_submit(job_submit.format(filter=FILTER_PATH, timings=running.timings))
        running.set_filter_config(socket=running.berth_socket)
        with real_daemon(running):
            yield running


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
    """Starts ``sbatch --hold`` with as little around it as can be."""

    def __init__(self, running: Cluster) -> None:
        self._sbatch = tool_path("sbatch")
        self._environment = running.environment
        self._script = str(running.work / "job.sh")
        Path(self._script).write_text("#!/bin/sh\n#SBATCH --ntasks=8\nsrun ./app\n")
        self._null = os.open(os.devnull, os.O_RDWR)

    def start(self, name: str) -> int:
        """The process id of one that submits a job of this name."""
        words = [self._sbatch, "--hold", "-p", "auto", "-J", name, "--comment=berth:stream",
                 "-o", "/dev/null", self._script]  # fmt: skip
        return os.posix_spawn(
            self._sbatch,
            words,
            self._environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, self._null, fd) for fd in (0, 1, 2)],
        )

    def ms(self, name: str) -> float:
        """Milliseconds from fork to exit."""
        begun = time.perf_counter_ns()
        _, status = os.waitpid(self.start(name), 0)
        took = (time.perf_counter_ns() - begun) / 1e6
        check(status, name)
        return took


def check(status: int, name: str) -> None:
    """Raises SystemExit where ``sbatch`` failed."""
    if status != 0:
        raise SystemExit(f"sbatch refused a job ({name})")
