"""Arrays on a real Slurm: placed by when their last task ends, on 96 cores or four GPUs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from real_daemon import RealDaemon, real_daemon, telling_all
from slurm_cluster import Cluster, Submitted, wait_until

from berth.plugin.daemon.protocol import parse_stamp
from berth.plugin.store import Store
from berth.plugin.store.records import DecisionRecord

ARRAY = """#!/bin/bash
#SBATCH --array=0-59
#SBATCH -n 1
#SBATCH -t 5
#SBATCH -o /dev/null
if [ "$SLURM_JOB_PARTITION" = gpu ]; then sleep 2; else sleep 6; fi
"""


@pytest.fixture
def daemon(slurm: Cluster) -> Iterator[RealDaemon]:
    with real_daemon(slurm, amend=telling_all) as running:
        yield running


def held(slurm: Cluster, *options: str) -> Submitted:
    """An array that is placed and does not run."""
    return slurm.sbatch("-p", "auto", "--hold", "-n", "1", *options)


def placed_in(slurm: Cluster, job: Submitted) -> str:
    return slurm.job(job.id)["Partition"]


def decision_of(slurm: Cluster, daemon: RealDaemon, job: Submitted) -> DecisionRecord:
    stamp = parse_stamp(slurm.job(job.id).get("AdminComment", ""))
    assert stamp is not None
    store = Store.reading(f"sqlite:///{daemon.store_file}")
    try:
        wait_until(lambda: store.decisions.get(stamp["id"]) is not None, "it is stored", 10)
        found = store.decisions.get(stamp["id"])
    finally:
        store.close()
    assert found is not None
    return found


def test_an_array_stays_where_all_its_tasks_run_at_a_time(
    slurm: Cluster, daemon: RealDaemon
) -> None:
    job = slurm.sbatch("-p", "auto", "--comment=berth:brief", script=ARRAY)
    assert "Left where you sent it: 6 s for all its tasks is predicted there" in job.message
    record = decision_of(slurm, daemon, job)
    assert (record.chosen, record.code) == (None, "stays")
    spans = {row["candidate"]: row.get("makespan") for row in json.loads(record.ranked)}
    assert spans["cpu"] == {"tasks": 60, "at_once": 60, "wait_s": 0, "seconds": 6}
    assert spans["gpu"] == {"tasks": 60, "at_once": 4, "wait_s": 0, "seconds": 30}
    site = str(daemon.site_file)
    shown = slurm.berth("jobs", "decisions", "--site", site, record.id).stdout
    assert "60 tasks" in shown
    assert "the job does better where it was submitted: 6 s for all its tasks" in shown
    why = slurm.berth("why", str(job.id), "--site", site).stdout
    assert "gpu instead: ruled out: the job does better where it was submitted" in why

    def ended() -> bool:
        states = slurm.run("squeue", "-h", "-r", "-j", str(job.id), "-t", "all", "-o", "%T|%P")
        return set(states.stdout.split()) == {"COMPLETED|auto"}

    wait_until(ended, "all tasks have run on CPUs", 60)


def test_a_single_job_an_own_throttle_and_few_tasks_go_to_the_faster_place(
    slurm: Cluster, daemon: RealDaemon
) -> None:
    for options in ((), ("--array=0-59%1",), ("--array=0-3",), ("--array=7",)):
        job = held(slurm, "--comment=berth:brief", *options)
        assert placed_in(slurm, job) == "gpu", options
    assert placed_in(slurm, held(slurm, "--comment=berth:brief", "--array=0-59")) == "auto"
    throttled = held(slurm, "--comment=berth:brief", "--array=0-59%2")
    assert placed_in(slurm, throttled) == "gpu"
    assert "60 tasks, 2 at a time: 60 s" in throttled.message
    assert json.loads(decision_of(slurm, daemon, throttled).request)["array_at_once"] == 2


def test_sizes_by_task_are_read_from_the_comment_or_leave_the_job_alone(
    slurm: Cluster, daemon: RealDaemon
) -> None:
    sizes = ":".join(str(100 + n) for n in range(8))
    job = held(slurm, f"--comment=berth:brief@{sizes}", "--array=0-7%4")
    assert placed_in(slurm, job) == "gpu"
    asked = json.loads(decision_of(slurm, daemon, job).request)
    assert asked["task_sizes"] == [[100 + n, 1] for n in range(8)]
    assert asked["size"] == 107
    rule = held(slurm, "--comment=berth:brief@100+10i", "--array=0-7")
    assert json.loads(decision_of(slurm, daemon, rule).request)["task_sizes"][-1] == [170, 1]
    wrong = held(slurm, f"--comment=berth:brief@{sizes}", "--array=0-8")
    assert placed_in(slurm, wrong) == "auto"
    assert "it names 8 sizes for an array of 9 tasks" in wrong.message
