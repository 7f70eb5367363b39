"""On a real Slurm: of full places the one that frees first, by a look-ahead beside the daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from real_daemon import RealDaemon, real_daemon
from slurm_cluster import Cluster, wait_until

from berth.policies.waits import WaitTable

SLEEP = "#!/bin/sh\nexec sleep 600\n"
SECOND = """
[[candidates]]
name = "second"
platform = "quartz"
partition = "mig"
nodes = 1
cores_per_node = 32
memory_per_node = "120G"
max_time = "12h"
default_time = "30m"
"""


@pytest.fixture
def daemon(slurm: Cluster) -> Iterator[RealDaemon]:
    def amend(text: str) -> str:
        text = text.replace("state_refresh_s = 2", "state_refresh_s = 1")
        return f"{text}{SECOND}"

    with real_daemon(slurm, amend=amend) as running:
        yield running


def waits(slurm: Cluster, daemon: RealDaemon, *options: str) -> str:
    return slurm.berth("jobs", "waits", "--site", str(daemon.site_file), *options).stdout


def test_jobs_that_wait_for_something_else_wait_before_nobody(
    slurm: Cluster, daemon: RealDaemon
) -> None:
    slurm.sbatch("-p", "mig", "-n", "1", "-t", "10", "--hold")
    slurm.sbatch("-p", "mig", "-n", "1", "-t", "10", "--begin=now+1hour")
    first = slurm.sbatch("-p", "mig", "-n", "32", "-t", "10", script=SLEEP)
    slurm.sbatch("-p", "mig", "-n", "1", "-t", "10", f"--dependency=afterok:{first.id}")
    slurm.sbatch("-p", "mig", "-n", "32", "-t", "10", script=SLEEP)
    wait_until(
        lambda: second_place(daemon).get("pending_jobs") == 1, "the last one alone is waiting", 60
    )


@pytest.mark.slow
def test_an_idle_place_is_listed_beside_a_full_one_and_waits_are_known_of_both(
    slurm: Cluster, daemon: RealDaemon
) -> None:
    def placed() -> str:
        job = slurm.sbatch("-p", "auto", "-n", "8", "--hold", "--comment=berth:serial")
        found = slurm.job(job.id)["Partition"]
        slurm.run("scancel", str(job.id))
        return found

    slurm.sbatch("-p", "gpu", "-n", "64", "-t", "300", script=SLEEP)
    # Its limit makes the first place free in two hours, the second one in ten minutes.
    for node, cores in (("cpu1", 32), ("cpu2", 64)):
        slurm.sbatch("-p", "cpu", "-w", node, "-n", str(cores), "-t", "120", script=SLEEP)
    wait_until(lambda: "mig" in placed().split(","), "the idle place is listed", 60)
    slurm.sbatch("-p", "mig", "-n", "32", "-t", "10", script=SLEEP)
    wait_until(
        lambda: second_place(daemon).get("idle_cores") == 0,
        "the daemon knows that both are full",
        60,
    )
    wait_until(
        lambda: second_place(daemon).get("expects_waits"),
        "the daemon has waits of the full places",
        180,  # it looks ahead once a minute
        note=lambda: slurm.log("berth"),
    )
    wait_until(lambda: "mig" in placed().split(","), "the first to be free is listed", 120)
    tables = json.loads(waits(slurm, daemon, "--json"))["tables"]
    first, second = (WaitTable.of_dict(tables[name]).at(8, 60.0) for name in ("cpu", "second"))
    # Nobody's past jobs are known: each takes a part of its limit.
    assert 0 < second.mid <= 600 < first.mid <= 7_200
    assert second.high < first.high
    assert "4 jobs run, 0 wait" in waits(slurm, daemon)


def second_place(daemon: RealDaemon) -> dict[str, object]:
    """Empty where the daemon is too busy to answer."""
    found = daemon.ask({"v": 1, "op": "stats"}) or {}
    place: dict[str, object] = (found.get("places") or {}).get("second") or {}
    return place
