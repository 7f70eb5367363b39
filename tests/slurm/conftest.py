"""One private Slurm cluster for the whole run; the filter alone under a plain Lua for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from filter_bench import FilterBench, require_lua
from real_daemon import RealDaemon, by_time_alone, real_daemon
from slurm_cluster import USER, Cluster, cluster_or_skip

from berth.plugin.slurm.filter import FILTER_PATH

CHAINED_FILTER = """\
dofile("{filter}")
local socket = require "socket"
local submit = slurm_job_submit
function slurm_job_submit(job_desc, part_list, submit_uid)
  local begun = socket.gettime()
  local code = submit(job_desc, part_list, submit_uid)
  local file = io.open("{timings}", "a")
  file:write(string.format("%.9f\\n", socket.gettime() - begun))
  file:close()
  return code
end
return slurm.SUCCESS
"""
"""A site's own job_submit.lua around Berth's, as docs/slurm.md shows; it times each call."""


@pytest.fixture
def bench(tmp_path: Path) -> FilterBench:
    require_lua()
    return FilterBench(tmp_path)


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[Cluster]:
    with cluster_or_skip() as running:
        yield running


@pytest.fixture
def slurm(running_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, idle, with Berth's filter freshly loaded, asking ``berth.sock``."""
    running = running_cluster
    running.timings.unlink(missing_ok=True)
    running.berth_socket.unlink(missing_ok=True)
    running.set_filter_config()
    chained = CHAINED_FILTER.format(filter=running.copied(FILTER_PATH), timings=running.timings)
    running.set_job_submit(chained)
    yield running
    running.cancel_everything()


@pytest.fixture
def daemon(slurm: Cluster) -> Iterator[RealDaemon]:
    """A daemon that enforces, by predicted times alone."""
    with real_daemon(slurm, amend=by_time_alone) as running:
        yield running


@pytest.fixture(scope="session")
def accounted_cluster() -> Iterator[Cluster]:
    """A cluster of its own with slurmdbd, where ``games`` has the account ``free``."""
    with cluster_or_skip(database=()) as running:
        running.run("sacctmgr", "-i", "add", "account", "free")
        running.run("sacctmgr", "-i", "add", "user", USER, "account=free")
        yield running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"running_cluster", "accounted_cluster"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slurm)
