"""A job whose smaller memory request was too little runs once more, with its own."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fake_daemon import FakeDaemon
from slurm_cluster import Cluster, cluster_or_skip, wait_until
from slurm_conf import NODE_NAMES

from berth.pilot.errors import SchedulerError
from berth.plugin.daemon import memory_guard as guard
from berth.plugin.slurm import memory_back

STAMP = "berth/1 id=d1 action=edit code=memory-fit fit=0123456789abcdef"


FIELDS = {"admin_comment": "AdminComment", "comment": "Comment", "UserName": "UserId",
          "State": "JobState", "requeue": "Requeue", "batchflag": "BatchFlag"}  # fmt: skip


class Killed(BaseException):
    """The helper is gone."""


@dataclass
class FakeSlurm:
    """As much of slurmctld as the helper asks. ``killed_before``: the number of a change."""

    jobs: dict[str, dict[str, str]]
    killed_before: int = 10**9
    changes: list[tuple[str, ...]] = field(default_factory=list)
    config: str = "JobRequeue = 1\nMinJobAge = 300 sec\n"

    def run(self, words: Sequence[str], **_: object) -> str:
        if "-O" in words:
            states = words[words.index("-t") + 1].split(",")
            forms = [form.partition(":") for form in words[-1].split(",")]
            return "".join(
                f"{number if name == 'JobID' else job[FIELDS[name]]}{bar}"
                for number, job in self.jobs.items()
                if job["JobState"] in states
                for name, _, bar in forms
            )
        if words[-1:] == ("partition",):
            return "PartitionName=auto Default=YES MaxTime=1:00:00\n"
        if words[1:] == ("show", "config"):
            return self.config
        if len(self.changes) >= self.killed_before:
            raise Killed
        self.changes.append(tuple(words))
        number = words[2].removeprefix("JobId=")
        job = self.jobs[number]
        if words[1] == "requeuehold":
            assert job["JobState"] in {"OUT_OF_MEMORY", "FAILED"}
            job.update(JobState="PENDING", held="yes", Restarts=str(int(job["Restarts"]) + 1))
        elif words[1] == "update":
            assert job["JobState"] == "PENDING", "Slurm changes no job that has ended"
            job.update(word.split("=", 1) for word in words[3:])
        else:
            assert words[1] == "release"
            job.pop("held", None)
        return ""


def out_of_memory(**changes: str) -> dict[str, str]:
    return {
        "JobState": "OUT_OF_MEMORY", "UserId": "alice", "Requeue": "1", "BatchFlag": "1",
        "Restarts": "0", "MinMemoryNode": "60M", "Comment": "mine",
        "AdminComment": f"{STAMP} was=min_mem_per_node:400;memory_mib_per_node:400;"
        "memory_mib_per_cpu:-",
    } | changes  # fmt: skip


SLICE_STAMP = "berth/1 id=d2 action=edit code=placed to=slice-1g.5gb use=fedcba9876543210"


def failed_in_slice(**changes: str) -> dict[str, str]:
    return {
        **out_of_memory(), "JobState": "FAILED", "Partition": "mig",
        "AdminComment": f"{SLICE_STAMP} was=partition:auto;num_tasks:-",
    } | changes  # fmt: skip


def a_round(slurm: FakeSlurm, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(memory_back.commands, "run", slurm.run)
    return list(memory_back.round_of(folder / "ruled-out.json", 30.0, 1_000.0))


def test_it_runs_again_once_with_its_own_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = FakeSlurm({"7": out_of_memory()})
    assert a_round(slurm, tmp_path, monkeypatch) == [
        "job 7 of alice: out of memory, runs again with its own"
    ]
    job = slurm.jobs["7"]
    assert (job["MinMemoryNode"], job["Restarts"], "held" in job) == ("400", "1", False)
    assert job["AdminComment"].endswith("memoryback=0123456789abcdef")
    assert job["Comment"].startswith("mine (berth: ran out")
    told = guard.load(guard.beside(tmp_path / "ruled-out.json"))
    assert told.stopped == {"0123456789abcdef": 1_000.0}
    assert told.watches(1_050.0)
    assert told.requeue
    job["JobState"] = "OUT_OF_MEMORY"
    assert a_round(slurm, tmp_path, monkeypatch) == []
    assert job["Restarts"] == "1"
    assert memory_back.forget(tmp_path / "ruled-out.json") == 1


@pytest.mark.parametrize(
    ("jobs", "killed_before"),
    [
        *(((out_of_memory(), out_of_memory()), number) for number in range(4)),
        *(((failed_in_slice(),), number) for number in range(3)),
    ],
)
def test_a_helper_that_was_killed_goes_on_where_it_stopped(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    jobs: tuple[dict[str, str], ...],
    killed_before: int,
) -> None:
    slurm = FakeSlurm({str(n): dict(job) for n, job in enumerate(jobs)}, killed_before)
    with pytest.raises(Killed):
        a_round(slurm, tmp_path, monkeypatch)
    slurm.killed_before = 10**9
    a_round(slurm, tmp_path, monkeypatch)
    a_round(slurm, tmp_path, monkeypatch)
    for job in slurm.jobs.values():
        assert (job["JobState"], job["Restarts"], "held" in job) == ("PENDING", "1", False)
        assert job["AdminComment"].count("memoryback=") == 1
        if job["AdminComment"].startswith(SLICE_STAMP):
            assert job["Partition"] == "auto"
        else:
            assert job["MinMemoryNode"] == "400"


@pytest.mark.parametrize(
    "job",
    [
        out_of_memory(Requeue="0"),
        out_of_memory(BatchFlag="0"),
        out_of_memory(
            AdminComment="berth/1 id=d1 action=edit code=placed to=gpu was=partition:auto"
        ),
        out_of_memory(AdminComment=STAMP),
        out_of_memory(AdminComment=""),
        out_of_memory(JobState="COMPLETED"),
        failed_in_slice(JobState="OUT_OF_MEMORY"),
        failed_in_slice(JobState="TIMEOUT"),
        failed_in_slice(AdminComment=f"{STAMP} was=memory_mib_per_node:400"),
        failed_in_slice(
            AdminComment="berth/1 action=edit code=placed to=slice-1g.5gb was=partition:auto"
        ),
        failed_in_slice(Requeue="0"),
    ],
)
def test_other_jobs_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: dict[str, str]
) -> None:
    slurm = FakeSlurm({"7": dict(job)})
    assert a_round(slurm, tmp_path, monkeypatch) == []
    assert slurm.changes == []


def test_a_job_that_its_owner_holds_is_not_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = FakeSlurm({"7": out_of_memory(JobState="PENDING")})
    a_round(slurm, tmp_path, monkeypatch)
    assert slurm.changes == []


@pytest.mark.parametrize("config", ["MinJobAge = 20 sec\nJobRequeue = 1\n", ""])
def test_where_slurm_forgets_too_soon_nobody_is_said_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    a_round(FakeSlurm({}, config=config), tmp_path, monkeypatch)
    assert not guard.load(guard.beside(tmp_path / "ruled-out.json")).watches(1_000.0)


def test_a_job_that_cannot_be_brought_back_is_said_and_stops_smaller_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = FakeSlurm({"7": out_of_memory()})

    def refuse(words: Sequence[str], **_: object) -> str:
        if "requeuehold" in words:
            raise SchedulerError("Access/permission denied")
        return slurm.run(words)

    monkeypatch.setattr(memory_back.commands, "run", refuse)
    with pytest.raises(SchedulerError, match="denied"):
        list(memory_back.round_of(tmp_path / "ruled-out.json", 30.0, 1_000.0))
    assert not guard.load(guard.beside(tmp_path / "ruled-out.json")).watches(1_000.0)
    monkeypatch.setattr(memory_back.commands, "run", slurm.run)
    assert list(memory_back.round_of(tmp_path / "ruled-out.json", 30.0, 1_000.0))


def test_a_job_that_failed_in_a_slice_chosen_by_use_runs_again_as_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = FakeSlurm({"7": failed_in_slice()})
    assert a_round(slurm, tmp_path, monkeypatch) == [
        "job 7 of alice: failed in a slice, runs again as it was asked for"
    ]
    job = slurm.jobs["7"]
    assert (job["Partition"], job["NumTasks"], job["Restarts"]) == ("auto", "1", "1")
    assert job["Comment"].startswith("mine (berth: failed in the slice")
    told = guard.load(guard.beside(tmp_path / "ruled-out.json"))
    assert told.stopped == {"fedcba9876543210": 1_000.0}
    job["JobState"] = "FAILED"
    assert a_round(slurm, tmp_path, monkeypatch) == [], "it fails of itself"


@pytest.mark.parametrize("was", ["gres:gres%3Agpu%3A1", "tres_per_job:gres%3Agpu%3A1"])
def test_a_type_of_gpu_cannot_be_taken_back_and_similar_jobs_get_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was: str
) -> None:
    slurm = FakeSlurm({"7": failed_in_slice(AdminComment=f"{SLICE_STAMP} was=partition:-;{was}")})
    assert a_round(slurm, tmp_path, monkeypatch) == [f"job 7 of alice: {memory_back.TYPED}"]
    assert slurm.changes == []
    assert guard.load(guard.beside(tmp_path / "ruled-out.json")).stopped == {
        "fedcba9876543210": 1_000.0
    }


# On a real Slurm whose jobs are held to their memory


def held_to_memory(files: Mapping[str, str]) -> dict[str, str]:
    """Jobs in control groups of their own, ended by the kernel where they take more."""
    found = dict(files)
    found["slurm.conf"] = (
        found["slurm.conf"]
        .replace("TaskPlugin=task/none", "TaskPlugin=task/cgroup")
        .replace("ProctrackType=proctrack/linuxproc", "ProctrackType=proctrack/cgroup")
    )
    found["cgroup.conf"] = (
        "CgroupAutomount=no\nCgroupMountpoint=/sys/fs/cgroup\nCgroupPlugin=cgroup/v1\n"
        "ConstrainRAMSpace=yes\n"
    )
    return found


@pytest.fixture
def strict() -> Iterator[Cluster]:
    if not os.access("/sys/fs/cgroup/memory/cgroup.procs", os.W_OK):
        pytest.skip("SLURM TESTS SKIPPED: no control groups of memory, version 1, can be made here")
    try:
        with cluster_or_skip(amend=held_to_memory) as running:
            running.install_filter()
            yield running
    finally:
        for node in NODE_NAMES:  # slurmd leaves its groups
            for group in Path("/sys/fs/cgroup").glob(f"*/slurm_{node}"):
                for folder, _, _ in os.walk(group, topdown=False):
                    with suppress(OSError):
                        Path(folder).rmdir()


SCRIPT = """\
#!/bin/sh
echo "$SLURM_JOB_ID $SLURM_MEM_PER_NODE" >> {out}
exec {python} -c '
held = bytearray(150_000_000)
for n in range(0, len(held), 4096): held[n] = 1
'
"""


@pytest.mark.slurm
def test_out_of_memory_on_a_real_slurm(strict: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    out = strict.work / "ran"
    script = SCRIPT.format(out=out, python="/usr/bin/python3")
    reply = {
        "v": 1, "action": "edit", "edits": {"memory_mib_per_node": 60}, "stamp": STAMP,
        "message": "It now asks 60 MiB.",
    }  # fmt: skip
    asked: list[dict[str, object]] = []

    def answer(request: dict[str, object]) -> dict[str, object]:
        asked.append(request)
        return reply

    with FakeDaemon(strict.berth_socket, answer):
        options = ("-p", "cpu", "--mem=400", "-t", "5")
        job = strict.sbatch(*options, script=script)
        once = strict.sbatch(*options, "--no-requeue", script=script)
    described = [json.loads(json.dumps(one))["job"] for one in asked]
    assert [one.get("requeue") for one in described] == [None, 0]
    for one in (job, once):
        assert strict.wait_for_state(one.id, "OUT_OF_MEMORY", timeout_s=120)
        assert strict.job(one.id)["Partition"] == "cpu"
    ruled_out = strict.root / "run" / "ruled-out.json"
    monkeypatch.setattr(os, "environ", {**os.environ, **strict.environment})
    said = list(memory_back.round_of(ruled_out, 30.0, time.time()))
    assert said == [f"job {job.id} of games: out of memory, runs again with its own"]
    assert list(memory_back.round_of(ruled_out, 30.0, time.time())) == []
    found = strict.job(job.id)
    assert (found["JobState"], found["MinMemoryNode"]) == ("PENDING", "400M")
    assert strict.job(once.id)["JobState"] == "OUT_OF_MEMORY", "it was said to run once"
    wait_until(
        lambda: not any(Path("/sys/fs/cgroup/memory").glob(f"slurm*/uid_*/job_{job.id}")),
        "the node has tidied up", 20,
    )  # fmt: skip
    time.sleep(2.0)  # slurmd refuses credentials of the second in which it revoked a job's
    strict.run("scontrol", "update", f"JobId={job.id}", "StartTime=now")  # else in two minutes
    assert strict.wait_for_state(job.id, timeout_s=120) == "COMPLETED"
    runs = [line.split() for line in out.read_text().splitlines()]
    assert [memory for number, memory in runs if number == str(job.id)] == ["60", "400"]
    assert len([1 for number, _ in runs if number == str(once.id)]) == 1


def with_gpus_in_auto(files: Mapping[str, str]) -> dict[str, str]:
    """The auto partition has the nodes with whole GPUs, too."""
    before = "PartitionName=auto Nodes=cpu1,cpu2"
    assert before in files["slurm.conf"]
    return {**files, "slurm.conf": files["slurm.conf"].replace(before, before + ",gpu1")}


@pytest.fixture
def with_slices() -> Iterator[Cluster]:
    with cluster_or_skip(amend=with_gpus_in_auto) as running:
        running.install_filter()
        yield running


@pytest.mark.slurm
def test_failed_in_a_slice_on_a_real_slurm(
    with_slices: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm, out = with_slices, with_slices.work / "ran"
    script = f"#!/bin/sh\necho $SLURM_JOB_PARTITION >> {out}\n[ $SLURM_JOB_PARTITION != mig ]\n"

    def submitted(edits: dict[str, object]) -> int:
        reply = {"v": 1, "action": "edit", "edits": edits, "stamp": SLICE_STAMP, "message": "x"}
        with FakeDaemon(slurm.berth_socket, lambda _: reply):
            job = slurm.sbatch("-p", "auto", "--gres=gpu:1", "--mem=9", "-t", "5", script=script)
        assert slurm.wait_for_state(job.id, "FAILED", timeout_s=60), job.message
        return job.id

    moved, typed = submitted({"queue": "mig"}), submitted({"queue": "mig", "gres": "gpu:1g.10gb:1"})
    ruled_out = slurm.root / "run" / "ruled-out.json"
    monkeypatch.setattr(os, "environ", {**os.environ, **slurm.environment})
    assert set(memory_back.round_of(ruled_out, 30.0, time.time())) == {
        f"job {moved} of games: failed in a slice, runs again as it was asked for",
        f"job {typed} of games: {memory_back.TYPED}",
    }
    assert slurm.job(moved)["Partition"] == "auto"
    time.sleep(2.0)  # slurmd refuses credentials of the second in which it revoked a job's
    slurm.run("scontrol", "update", f"JobId={moved}", "StartTime=now")  # else in two minutes
    assert slurm.wait_for_state(moved, timeout_s=120) == "COMPLETED"
    assert out.read_text().split() == ["mig", "mig", "auto"]
    assert slurm.job(typed)["JobState"] == "FAILED"
