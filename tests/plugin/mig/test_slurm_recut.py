"""On a real Slurm: a node's slices change while jobs on its other slices run on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from slurm_cluster import wait_until
from slurm_node import FIRST, SLEEPER, ClusterRestarter, Node, keeper, show_node

from berth.plugin.mig.apply import Applier
from berth.plugin.mig.errors import Busy, PlanRefused, RolledBack
from berth.plugin.mig.nvml import Nvml
from berth.plugin.mig.target import ApplyTarget
from berth.plugin.slurm.mig.keeper import SlurmKeeper
from berth.plugin.slurm.mig.queue import pending, seen_now
from berth.policies.mig import GpuInstance, Layout

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]


@pytest.mark.slow
def test_slices_change_beside_jobs_that_run_on(node: Node) -> None:
    slurm = node.slurm
    small, large = node.run_job("1g.5gb"), node.run_job("3g.20gb")
    before = {job: (slurm.job(job)["StartTime"], node.slot_of(job)) for job in (small, large)}
    assert "gpu:1g.10gb" not in show_node(slurm)["Gres"]

    assert node.apply("1g.5gb@0 1g.5gb@1 1g.10gb@2 3g.20gb@4") == "new"

    shown = show_node(slurm)
    assert "gpu:1g.10gb:1" in shown["Gres"]
    assert "gpu:2g.10gb" not in shown["Gres"]
    assert "DRAIN" not in shown["State"]
    for job, (start, slot) in before.items():
        assert slurm.job(job)["JobState"] == "RUNNING"
        assert slurm.job(job)["StartTime"] == start
        assert node.slot_of(job) == slot
    fresh = [node.run_job("1g.10gb"), node.run_job("1g.5gb")]
    held = [node.slot_of(job).instance for job in (small, large, *fresh)]
    assert len(set(held)) == 4, "no slice has two jobs"
    assert node.fleet.touched == 0


def test_a_slice_that_slurm_gave_to_a_job_is_not_cut_though_no_process_is_on_it(
    node: Node,
) -> None:
    job = node.slurm.sbatch("-pmig", "--gres=gpu:2g.10gb:1", "--mem=10", script=SLEEPER).id
    node.slurm.wait_for_state(job, "RUNNING", timeout_s=120)
    look = node.fleet.layout()
    with pytest.raises((Busy, PlanRefused)):
        node.apply("1g.5gb@0 1g.5gb@1 1g.10gb@2 3g.20gb@4")
    assert node.fleet.layout() == look
    assert "DRAIN" not in show_node(node.slurm)["State"]
    assert node.slurm.job(job)["JobState"] == "RUNNING"


def test_a_job_that_starts_just_before_the_drain_keeps_its_number(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else Slurm would give its slice to a second job."""
    drain = SlurmKeeper.drain
    jobs: list[int] = []

    def late(self: SlurmKeeper, reason: str) -> None:
        if not jobs:
            jobs.append(node.run_job("3g.20gb"))
        drain(self, reason)

    look, gres = node.fleet.layout(), show_node(node.slurm)["Gres"]
    monkeypatch.setattr(SlurmKeeper, "drain", late)
    with pytest.raises(RolledBack, match="has started on mig1 meanwhile"):
        node.apply("1g.5gb@0 1g.5gb@1 3g.20gb@4")
    assert (node.fleet.layout(), show_node(node.slurm)["Gres"]) == (look, gres)
    assert "DRAIN" not in show_node(node.slurm)["State"]
    assert node.slurm.job(jobs[0])["JobState"] == "RUNNING"
    assert node.slot_of(jobs[0]).instance == GpuInstance(4, "3g.20gb")


def test_a_node_that_somebody_else_drained_stays_drained(node: Node) -> None:
    node.slurm.run("scontrol", "update", "NodeName=mig1", "State=DRAIN", "Reason=fan broken")
    try:
        assert node.apply("7g.40gb@0") == "new"
        assert "DRAIN" in show_node(node.slurm)["State"]
    finally:
        node.slurm.run("scontrol", "update", "NodeName=mig1", "State=RESUME")


def test_killed_while_slurm_is_told_and_resumed(node: Node) -> None:
    slurm = node.slurm
    job = node.run_job("3g.20gb")
    slot = node.slot_of(job)
    child = os.fork()
    if child == 0:
        restarter = ClusterRestarter(slurm)
        restarter.controller = lambda: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
        with Nvml() as nvml:
            killed = SlurmKeeper(node.files, restarter)
            Applier(nvml, killed, node.folder).apply(
                ApplyTarget({"0": Layout.parse("1g.5gb@0 1g.5gb@1 1g.10gb@2 3g.20gb@4")})
            )
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert "DRAIN" in show_node(slurm)["State"]

    with Nvml() as nvml:
        report = Applier(nvml, keeper(slurm, node.files), node.folder).resume()

    assert report.outcome == "new"
    shown = show_node(slurm)
    assert "gpu:1g.10gb:1" in shown["Gres"]
    assert "DRAIN" not in shown["State"]
    assert slurm.job(job)["JobState"] == "RUNNING"
    assert node.slot_of(job) == slot


def test_what_waits_in_the_queue_is_what_would_be_planned_for(node: Node) -> None:
    slurm = node.slurm
    for form in ("--gres=gpu:1g.5gb:1", "--gpus=1g.5gb:1") * 2:
        slurm.sbatch("-pmig", form, "--mem=10", script=SLEEPER)
    slurm.sbatch("-pmig", "--gres=gpu:1g.5gb:1", "--hold", "--mem=10", script=SLEEPER)
    profiles = ("1g.5gb", "3g.20gb")
    wait_until(
        lambda: [(d.name, d.count) for d in pending(profiles)] == [("1g.5gb", 2)],
        "two jobs wait for a slice",
        note=lambda: slurm.run("squeue", "-o", "%i %T %r %b").stdout,
    )
    lately = [a for a in seen_now(profiles) if abs(a.submit_s - time.time()) < 120]
    assert sum(a.count for a in lately if a.profiles == ("1g.5gb",)) >= 5, "whatever their state"


@pytest.mark.parametrize("form", ["--gres=gpu:2g.10gb:1", "--gpus=2g.10gb:1"])
def test_the_last_slice_of_a_type_that_a_job_waits_for_is_kept(node: Node, form: str) -> None:
    slurm = node.slurm
    slurm.run("scontrol", "update", "PartitionName=mig", "State=DOWN")
    try:
        job = slurm.sbatch("-pmig", form, "--mem=10", script=SLEEPER).id
        with pytest.raises(PlanRefused, match=r"waits for a 2g\.10gb"):
            node.apply("1g.5gb@0 1g.5gb@1 1g.10gb@2 3g.20gb@4")
        assert slurm.job(job)["Reason"] != "BadConstraints"
    finally:
        slurm.run("scontrol", "update", "PartitionName=mig", "State=UP")
    slurm.wait_for_state(job, "RUNNING", timeout_s=120)


@pytest.mark.slow
def test_a_job_that_slurm_held_for_a_type_runs_when_the_type_is_back(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = node.slurm
    slurm.run("scontrol", "update", "PartitionName=mig", "State=DOWN")
    try:
        job = slurm.sbatch("-pmig", "--gres=gpu:2g.10gb:1", "--mem=10", script=SLEEPER).id
        with monkeypatch.context() as careless:
            careless.setattr(SlurmKeeper, "_refuse_to_strand", lambda *_: None)
            node.apply("1g.5gb@0 1g.5gb@1 1g.10gb@2 3g.20gb@4")
    finally:
        slurm.run("scontrol", "update", "PartitionName=mig", "State=UP")
    wait_until(lambda: slurm.job(job)["Reason"] == "BadConstraints", "Slurm holds the job")
    node.apply(FIRST)
    slurm.wait_for_state(job, "RUNNING", timeout_s=120)


def test_a_task_sees_the_uuid_of_its_slice(node: Node) -> None:
    prolog = Path(__file__).resolve().parents[3] / "deploy" / "berth-mig-task-prolog"
    script = f'#!/bin/sh\nBERTH_MIG_DEVICES={node.files.device_map} sh -s < "$1"\n'
    out = node.slurm.work / "uuid.out"
    (node.slurm.work / "prolog.sh").write_text(prolog.read_text())
    job = node.slurm.sbatch(
        "-pmig", "--gres=gpu:3g.20gb:1", "--mem=10", f"--output={out}",
        script=script.replace('"$1"', "prolog.sh"),
    )  # fmt: skip
    node.slurm.wait_for_state(job.id, timeout_s=120)
    with Nvml() as nvml:
        (gpu,) = nvml.read()
    record = gpu.find(GpuInstance(4, "3g.20gb"))
    assert record is not None
    assert out.read_text().strip() == f"export CUDA_VISIBLE_DEVICES={record.uuids[0]}"


def test_a_cut_that_fails_leaves_slurm_as_it_was(node: Node) -> None:
    job = node.run_job("3g.20gb")
    gres, lines = show_node(node.slurm)["Gres"], node.files.gres_conf.read_text()
    node.fleet.faults("nvmlDeviceCreateGpuInstanceWithPlacement:1:fail:23")
    with pytest.raises(Exception, match="what it was before"):
        node.apply("1g.5gb@0 1g.5gb@1 1g.10gb@2 3g.20gb@4")
    node.fleet.faults("")
    shown = show_node(node.slurm)
    assert (shown["Gres"], node.files.gres_conf.read_text()) == (gres, lines)
    assert "DRAIN" not in shown["State"]
    assert node.slurm.job(job)["JobState"] == "RUNNING"
