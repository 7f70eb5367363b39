"""The filter inside a real slurmctld, with a stand-in for the daemon: jobs land where it says."""

from __future__ import annotations

import time

import pytest
from fake_daemon import KEEP, FakeDaemon, move_to
from slurm_cluster import USER, Cluster, wait_until

SHOW_SHAPE = """#!/bin/sh
echo "tasks=$SLURM_NTASKS nodes=$SLURM_JOB_NUM_NODES gpus=$SLURM_JOB_GPUS mem=$SLURM_MEM_PER_NODE"
srun sh -c 'echo step $SLURM_PROCID of $SLURM_NTASKS'
"""


def output_of(slurm: Cluster, job_id: int) -> str:
    return (slurm.work / f"slurm-{job_id}.out").read_text()


def test_a_job_of_a_new_shape_runs_its_steps_in_that_shape(slurm: Cluster) -> None:
    """sbatch has put the old number of tasks into the environment: srun must see the new one."""
    reply = move_to("gpu", gres="gpu:h200:2", nodes=1, tasks=2, cpus_per_task=4,
                    memory_mib_per_node=64000)  # fmt: skip
    with FakeDaemon(slurm.berth_socket, lambda _: reply):
        job = slurm.sbatch("-p", "auto", "-N", "2", "-n", "64", "--mem=4000", script=SHOW_SHAPE)
    assert slurm.wait_for_state(job.id) == "COMPLETED", output_of(slurm, job.id)
    text = output_of(slurm, job.id)
    assert "tasks=2 nodes=1 gpus=0,1 mem=64000" in text
    assert sorted(line for line in text.splitlines() if "step" in line) == [
        "step 0 of 2",
        "step 1 of 2",
    ]


def test_the_daemon_sees_what_the_user_asked(slurm: Cluster) -> None:
    with FakeDaemon(slurm.berth_socket, lambda _: KEEP) as daemon:
        slurm.sbatch(
            "-p", "auto", "-N2", "-n4", "-c2", "--mem=100", "-t", "7", "-J", "name", "--hold",
            "--comment=berth:stream@3", "--array=0-3%2", "-C", "intel|amd",
            env={"BERTH_WORKLOAD": "other", "BERTH_MODE": "shadow"},
        )  # fmt: skip
    job = daemon.requests[0]["job"]
    assert job.pop("script").startswith("#!/bin/sh")
    assert job.pop("scheduler_since_s") <= time.time() + 1
    assert job == {
        "uid": 5,
        "user": USER,
        "name": "name",
        "queue": "auto",
        "queues": ["cpu", "gpu", "mig", "reserved"],
        "comment": "berth:stream@3",
        "workload": "other",
        "mode": "shadow",
        "kind": "batch",
        "nodes": 2,
        "max_nodes": 2,
        "tasks": 4,
        "cpus_per_task": 2,
        "memory_mib_per_node": 100,
        "features": "intel|amd",
        "time_limit_min": 7,
        "array": "0-3%2",
    }


def test_auto_runs_in_its_own_nodes_when_nobody_answers(slurm: Cluster) -> None:
    job = slurm.sbatch("-p", "auto")
    assert job.message == ""
    with (slurm.etc / "filter.conf").open("a") as file:
        file.write("messages = all\n")
    assert "stays in partition auto" in slurm.sbatch("-p", "auto").message
    assert slurm.wait_for_state(job.id) == "COMPLETED"
    assert slurm.job(job.id)["NodeList"] in ("cpu1", "cpu2")


def test_the_kill_switch_works_at_once_and_without_restart(slurm: Cluster) -> None:
    switch = slurm.kill_switch
    with FakeDaemon(slurm.berth_socket, lambda _: move_to("gpu")) as daemon:
        switch.touch()
        off = slurm.sbatch("--hold")
        switch.unlink()
        on = slurm.sbatch("--hold")
    assert len(daemon.requests) == 1
    assert slurm.job(off.id)["Partition"] == "cpu"
    assert slurm.job(on.id)["Partition"] == "gpu"


@pytest.mark.parametrize("tool", ["srun", "salloc"])
def test_interactive_jobs_are_placed_too_but_keep_their_shape(slurm: Cluster, tool: str) -> None:
    replies = iter([move_to("gpu", gres="gpu:h200:1"), move_to("gpu", tasks=1)])
    command = ("sh", "-c", "echo $SLURM_JOB_PARTITION $SLURM_NTASKS")
    if tool == "salloc":
        command = ("srun", *command)
    with FakeDaemon(slurm.berth_socket, lambda _: next(replies)) as daemon:
        moved = slurm.run(tool, "-p", "auto", "-n", "2", *command, user=USER)
        kept = slurm.run(tool, "-p", "auto", "-n", "2", *command, user=USER)
    assert [request["job"]["kind"] for request in daemon.requests] == ["interactive"] * 2
    assert moved.stdout.split() == ["gpu", "2"] * 2
    assert "this job runs in gpu" in moved.stderr
    assert kept.stdout.split() == ["auto", "2"] * 2


def test_modifying_a_job_does_not_ask(slurm: Cluster) -> None:
    with FakeDaemon(slurm.berth_socket, lambda _: KEEP) as daemon:
        job = slurm.sbatch("--hold")
        slurm.run("scontrol", "update", f"JobId={job.id}", "TimeLimit=3", user=USER)
    assert len(daemon.requests) == 1
    assert slurm.job(job.id)["TimeLimit"] == "00:03:00"


def test_slurmctld_starts_and_takes_jobs_without_the_lua_libraries(slurm: Cluster) -> None:
    slurm.set_job_submit(
        "package.preload['socket'] = function() error('not installed') end\n"
        + "package.loaded['socket'] = nil\n"
        + (slurm.etc / "job_submit.lua").read_text().splitlines()[0]
        + "\nreturn slurm.SUCCESS\n"
    )
    with FakeDaemon(slurm.berth_socket, lambda _: move_to("gpu")) as daemon:
        job = slurm.sbatch("-p", "auto")
    assert daemon.requests == []
    assert slurm.job(job.id)["Partition"] == "auto"
    wait_until(lambda: "lua-cjson is missing" in slurm.log(), "slurmctld logs it")


def test_the_filter_never_makes_slurmctld_complain(slurm: Cluster) -> None:
    with FakeDaemon(slurm.berth_socket, lambda _: move_to("gpu", gres="gpu:h200:1")):
        before = len(slurm.log())
        slurm.sbatch("-p", "auto")
        slurm.run("srun", "-p", "auto", "true", user=USER)
        slurm.sbatch("-n1", ":", "-n1")
    news = slurm.log()[before:].splitlines()
    assert [line for line in news if "error" in line and "job_submit" in line] == []
    assert [line for line in news if "NULL" in line] == []
