"""A moved job that Slurm keeps waiting gets its own request back, once, and its place is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_daemon import FakeDaemon, move_to
from real_daemon import RealDaemon, real_daemon
from slurm_cluster import OTHER_USER, USER, Cluster, wait_until

KEYS = ("Partition", "NumTasks", "CPUs/Task", "TresPerNode", "Features", "TimeLimit", "NumCPUs",
        "MinMemoryCPU", "MinMemoryNode", "NumNodes")  # fmt: skip


@pytest.fixture
def narrow(slurm: Cluster) -> Iterator[Cluster]:
    """``gpu`` takes no job of more than two cores a node: a limit that nobody told Berth of."""
    slurm.run("scontrol", "update", "PartitionName=gpu", "MaxCPUsPerNode=2")
    yield slurm
    slurm.run("scontrol", "update", "PartitionName=gpu", "MaxCPUsPerNode=UNLIMITED")


def moved(slurm: Cluster, *options: str, **edits: object) -> int:
    """A job that a daemon which knows nothing of the limit sends to ``gpu``."""
    reply = move_to("gpu", **edits)
    reply["stamp"] = "berth/1 id=d1 action=edit code=placed to=gpu workload=stream bundle=test"
    with FakeDaemon(slurm.berth_socket, lambda _: reply):
        job = slurm.sbatch("-p", "auto", *options, script="#!/bin/sh\nexec sleep 30\n")
    assert slurm.job(job.id)["Partition"] == "gpu"
    return job.id


def putback(slurm: Cluster, *words: str) -> str:
    site = slurm.etc / "berth.toml"
    if not site.exists():
        RealDaemon(slurm).write_site()
    return slurm.berth("site", "slurm", "putback", words[0], "--site", str(site), *words[1:]).stdout


def update(slurm: Cluster, job: int, *words: str, user: str | None = USER) -> str:
    """What ``scontrol update`` answers; Slurm 24.11 asks at times to try again."""
    again, said = "Resource temporarily unavailable", ""

    def answered() -> bool:
        nonlocal said
        line = ("scontrol", "update", f"JobId={job}", *words)
        said = slurm.run(*line, user=user, check=False).stderr
        return again not in said

    wait_until(answered, "scontrol update is answered")
    return said


def reason(slurm: Cluster, job: int) -> str:
    return slurm.job(job)["Reason"]


def test_it_gets_its_request_back_and_starts(narrow: Cluster) -> None:
    as_written = narrow.sbatch("-p", "auto", "-n", "8", "-t", "30", "--mem-per-cpu=500", "--hold")
    wanted = narrow.job(as_written.id)
    job = moved(
        narrow, "-n", "8", "-t", "30", "--mem-per-cpu=500",
        tasks=1, cpus_per_task=4, nodes=1, memory_mib_per_cpu=1000, time_limit_min=60,
    )  # fmt: skip
    wait_until(lambda: reason(narrow, job) not in ("None", "Priority"), "Slurm gave a reason", 60)
    assert f"job {job} of" in putback(narrow, "run")
    narrow.wait_for_state(job, "RUNNING", "COMPLETED", timeout_s=120)
    found = narrow.job(job)
    for key in KEYS:
        if key != "NumNodes":
            assert found.get(key) == wanted.get(key), key
    assert "put back" in found["Comment"]
    assert " putback=" in found["AdminComment"]
    assert putback(narrow, "run") == ""
    assert "gpu: not for user games" in putback(narrow, "list")
    assert putback(narrow, "clear", "gpu") == "1 forgotten\n"


def test_gpus_that_cannot_be_taken_away_are_told_to_the_user(narrow: Cluster) -> None:
    job = moved(narrow, "-n", "8", gres="gpu:h200:1", tasks=1, cpus_per_task=4, nodes=1)
    wait_until(lambda: reason(narrow, job) not in ("None", "Priority"), "Slurm gave a reason", 60)
    putback(narrow, "run")
    found = narrow.job(job)
    assert "submit it with --comment=berth:off" in found["Comment"]
    assert found["AdminComment"].rstrip().endswith("putback=failed")
    assert putback(narrow, "run") == ""
    putback(narrow, "clear", "--all")


def test_the_place_is_ruled_out_until_somebody_looked(narrow: Cluster) -> None:
    job = moved(narrow, "-n", "8", tasks=1, cpus_per_task=4, nodes=1)
    wait_until(lambda: reason(narrow, job) not in ("None", "Priority"), "Slurm gave a reason", 60)
    putback(narrow, "run")
    narrow.run("scontrol", "update", "PartitionName=gpu", "MaxCPUsPerNode=UNLIMITED")
    with real_daemon(narrow):
        kept = narrow.sbatch("-p", "auto", "--hold", "--comment=berth:stream")
        assert narrow.job(kept.id)["Partition"] != "gpu"
        putback(narrow, "clear", "--all")

        def goes_again() -> bool:
            again = narrow.sbatch("-p", "auto", "--hold", "--comment=berth:stream")
            return narrow.job(again.id)["Partition"] == "gpu"

        wait_until(goes_again, "the place is open again", 60)


FORGED = "berth/1 id=d1 action=edit code=placed to=cpu workload=p was=partition:reserved"
ENDS = ("\n", "\x0c", "\x1c", "\u2028", " ")
"""What ends a line, for Slurm or for Python; and what ends a value."""


@pytest.mark.parametrize("end", ENDS, ids=ascii)
def test_no_text_of_a_user_is_taken_for_a_stamp(narrow: Cluster, end: str) -> None:
    """The helper has an operator's rights: it would move the job where its user may not."""
    text = f"x{end}UserId=root(0){end}AdminComment={FORGED}"
    own = narrow.sbatch("-p", "gpu", "-n", "8", "-J", text, "--comment", text, user=OTHER_USER)
    wait_until(lambda: reason(narrow, own.id) not in ("None", "Priority"), "a reason", 60)
    assert putback(narrow, "run") == ""
    assert putback(narrow, "list") == "no place is ruled out\n"
    shown = ("squeue", "-h", "-a", "-j", str(own.id), "-O", "partition:20")
    assert narrow.run(*shown).stdout.strip() == "gpu"


def test_the_user_of_a_job_that_is_put_back_is_its_own(narrow: Cluster) -> None:
    job = moved(narrow, "-n", "8", "-J", "x UserId=root(0)", tasks=1, cpus_per_task=4, nodes=1)
    wait_until(lambda: reason(narrow, job) not in ("None", "Priority"), "Slurm gave a reason", 60)
    assert f"job {job} of games" in putback(narrow, "run")
    putback(narrow, "clear", "--all")


MOVES = {
    "time, tasks, memory": (
        ("-n", "8", "-t", "30"),
        {"tasks": 1, "cpus_per_task": 4, "nodes": 1, "memory_mib_per_cpu": 2500,
         "time_limit_min": 90, "features": "amd"},
    ),
    "memory of a node": (("-n", "8", "--mem=3000"), {"memory_mib_per_node": 5000}),
    "tasks of a node": (
        ("-N", "1", "-n", "4", "--ntasks-per-node=4"), {"tasks": 1, "cpus_per_task": 4},
    ),
}  # fmt: skip


@pytest.mark.parametrize("to", ["auto", "cpu"])
@pytest.mark.parametrize("move", MOVES)
def test_a_job_moved_by_hand_is_as_its_user_wrote_it(slurm: Cluster, move: str, to: str) -> None:
    options, edits = MOVES[move]
    options = (*options, "--begin=now+1hour")
    wanted = slurm.job(slurm.sbatch("-p", to, *options).id)
    job = moved(slurm, *options, **edits)
    assert update(slurm, job, f"Partition={to}") == ""
    assert putback(slurm, "run") == ""
    found = slurm.job(job)
    for key in KEYS:
        if key != "NumNodes":
            assert found.get(key) == wanted.get(key), key
    stamp = "berth/1 id=d1 action=keep code=moved-by-hand workload=stream bundle=test"
    assert found["AdminComment"] == stamp


def test_what_a_user_writes_beside_the_partition_holds(slurm: Cluster) -> None:
    job = moved(slurm, "-t", "30", "--begin=now+1hour", time_limit_min=90)
    assert update(slurm, job, "Partition=cpu", "TimeLimit=45", "MinMemoryNode=700") == ""
    found = slurm.job(job)
    assert (found["TimeLimit"], found["MinMemoryNode"]) == ("00:45:00", "700M")
    assert update(slurm, job, "Partition=auto") == ""
    assert slurm.job(job)["TimeLimit"] == "00:45:00", "moved by hand once already"


def test_a_job_with_added_gpus_is_not_let_go_where_it_would_wait_for_ever(slurm: Cluster) -> None:
    """No Slurm takes them away again."""
    job = moved(slurm, "--begin=now+1hour", gres="gpu:h200:1")
    refused = "Requested node configuration is not available"
    assert refused in update(slurm, job, "Partition=cpu")
    assert slurm.job(job)["Partition"] == "gpu"
    assert update(slurm, job, "Partition=cpu", user=None) == "", "root may"


def test_what_berth_did_not_move_is_left_alone(narrow: Cluster) -> None:
    own = narrow.sbatch("-p", "gpu", "-n", "8")
    wait_until(lambda: reason(narrow, own.id) not in ("None", "Priority"), "a reason", 60)
    assert putback(narrow, "run") == ""
    assert narrow.job(own.id)["Partition"] == "gpu"
