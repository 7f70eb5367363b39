"""The whole submit path on a real Slurm: sbatch, the filter, ``berth serve``, the store, back."""

from __future__ import annotations

import json
import re

import pytest
from real_daemon import RealDaemon, real_daemon
from slurm_cluster import OTHER_USER, USER, Cluster, Submitted, wait_until

from berth.plugin.daemon.protocol import parse_stamp
from berth.plugin.store import Store
from berth.plugin.store.records import DecisionRecord


def record_of(slurm: Cluster, daemon: RealDaemon, job_id: int) -> DecisionRecord:
    """The decision that the job's stamp names, once it is stored."""
    decision = stamp_of(slurm, job_id)["id"]
    store = Store.reading(f"sqlite:///{daemon.store_file}")
    wait_until(lambda: store.decisions.get(decision) is not None, "the decision is stored", 10)
    record = store.decisions.get(decision)
    store.close()
    assert record is not None
    return record


def stamp_of(slurm: Cluster, job_id: int | str) -> dict[str, str]:
    found = parse_stamp(slurm.job(job_id).get("AdminComment", ""))
    assert found is not None
    return found


def test_enforced_jobs_run_where_they_run_best(slurm: Cluster, daemon: RealDaemon) -> None:
    gpu = slurm.sbatch("-p", "auto", "-n", "8", "--comment=berth:stream")
    cpu = slurm.sbatch("-p", "auto", "-n", "8", env={"BERTH_WORKLOAD": "serial"})
    assert "gpu" in gpu.message
    assert "--comment=berth:off" in gpu.message
    assert len(gpu.message.strip().splitlines()) == 1
    for job, partition, node in ((gpu, "gpu", ("gpu1",)), (cpu, "auto", ("cpu1", "cpu2"))):
        assert slurm.wait_for_state(job.id) == "COMPLETED"
        found = slurm.job(job.id)
        assert found["Partition"] == partition
        assert found["NodeList"] in node
    assert slurm.job(gpu.id)["NumTasks"] == "8"
    assert slurm.job(cpu.id)["NumTasks"] == "8"
    assert "gpu:h200:1" in slurm.job(gpu.id)["TresPerNode"]


def test_the_stamp_leads_to_the_recorded_decision(slurm: Cluster, daemon: RealDaemon) -> None:
    job = slurm.sbatch("-p", "auto", "--comment=berth:stream")
    stamp = stamp_of(slurm, job.id)
    assert stamp["action"] == "edit"
    assert stamp["to"] == "gpu"
    record = record_of(slurm, daemon, job.id)
    assert (record.user, record.workload, record.chosen) == (USER, "stream", "gpu")
    assert record.bundle == "test"
    assert record.inputs_digest
    assert record.reason


def test_an_inactive_partition_is_said_to_be_inactive(slurm: Cluster, daemon: RealDaemon) -> None:
    """Slurm leaves it out of the partitions that the submitter may use, as if it were forbidden."""

    def why_not_gpu() -> str:
        job = slurm.sbatch("-p", "auto", "--hold", "--comment=berth:stream")
        ranked = json.loads(record_of(slurm, daemon, job.id).ranked)
        rows = {row["candidate"]: row for row in ranked}
        return str(rows["gpu"].get("excluded"))

    slurm.run("scontrol", "update", "PartitionName=gpu", "State=INACTIVE", user="root")
    try:
        wait_until(
            lambda: why_not_gpu() == "gpu is INACTIVE: takes no jobs and starts none",
            "the daemon has read the partition's state",
            20,
        )
    finally:
        slurm.run("scontrol", "update", "PartitionName=gpu", "State=UP", user="root")


def test_a_list_with_auto_in_it_is_left_and_said_so(slurm: Cluster, daemon: RealDaemon) -> None:
    job = slurm.sbatch("-p", "auto,cpu", "--hold", "--comment=berth:stream")
    assert slurm.job(job.id)["Partition"] == "auto,cpu"
    assert record_of(slurm, daemon, job.id).reason.startswith(
        "-p auto,cpu names partitions beside auto"
    )


def test_what_became_of_a_job_is_stored_beside_what_was_predicted(
    slurm: Cluster, daemon: RealDaemon
) -> None:
    job = slurm.sbatch("-p", "auto", "-t", "30", "--comment=berth:stream")
    kept = slurm.sbatch("-p", "auto", "--comment=berth:off")
    for one in (job, kept):
        assert slurm.wait_for_state(one.id) == "COMPLETED"
    store = Store.reading(f"sqlite:///{daemon.store_file}")
    wait_until(lambda: store.outcomes.of_job(str(job.id)) is not None, "the outcome is stored", 60)
    found = store.outcomes.of_job(str(job.id))
    store.close()
    assert found is not None
    assert (found.user, found.state, found.partition) == (USER, "completed", "gpu")
    assert (found.candidate, found.predicted_s, found.exit_status) == ("gpu", 10.0, 0)
    assert (found.gpus, found.nodes, found.time_limit_s) == (1, 1, 1800.0)
    assert found.submit_s is not None
    assert found.end_s is not None
    assert 0 <= found.end_s - found.submit_s < 600
    assert found.decision == stamp_of(slurm, job.id)["id"]


def test_in_shadow_nothing_changes_but_the_stamp(slurm: Cluster) -> None:
    with real_daemon(slurm, "shadow"):
        job = slurm.sbatch("-p", "auto", "-n", "8", "--comment=berth:stream")
    assert job.message == ""
    found = slurm.job(job.id)
    assert (found["Partition"], found["NumTasks"]) == ("auto", "8")
    assert stamp_of(slurm, job.id)["to"] == "gpu"


def test_advice_is_told_and_not_taken(slurm: Cluster) -> None:
    with real_daemon(slurm, "advise"):
        job = slurm.sbatch("-p", "auto", "-n", "8", "--comment=berth:stream")
    assert "gpu" in job.message
    found = slurm.job(job.id)
    assert (found["Partition"], found["NumTasks"]) == ("auto", "8")


def test_off_leaves_no_trace(slurm: Cluster) -> None:
    with real_daemon(slurm, "off"):
        job = slurm.sbatch("-p", "auto", "--comment=berth:stream")
    assert slurm.job(job.id)["Partition"] == "auto"
    assert "AdminComment" not in slurm.job(job.id)


def test_a_job_may_ask_for_less_than_the_sites_mode_but_not_for_more(slurm: Cluster) -> None:
    with real_daemon(slurm, "enforce"):
        less = slurm.sbatch("-p", "auto", "--comment=berth:stream", env={"BERTH_MODE": "shadow"})
    with real_daemon(slurm, "shadow"):
        more = slurm.sbatch("-p", "auto", "--comment=berth:stream", env={"BERTH_MODE": "enforce"})
    assert slurm.job(less.id)["Partition"] == slurm.job(more.id)["Partition"] == "auto"


def test_explicit_choices_are_kept(slurm: Cluster, daemon: RealDaemon) -> None:
    partition = slurm.sbatch("-p", "cpu", "--comment=berth:stream", "--hold")
    out = slurm.sbatch("-p", "auto", "--comment=berth:off", "--hold")
    node = slurm.sbatch("-p", "auto", "-w", "cpu2", "--comment=berth:stream", "--hold")
    feature = slurm.sbatch("-p", "auto", "-C", "avx2", "--comment=berth:stream", "--hold")
    assert slurm.job(partition.id)["Partition"] == "cpu"
    assert slurm.job(out.id)["Partition"] == "auto"
    assert slurm.job(node.id)["ReqNodeList"] == "cpu2"
    assert slurm.job(node.id)["Partition"] == "auto"
    assert slurm.job(feature.id)["Features"] == "avx2"
    assert slurm.job(feature.id)["Partition"] in ("auto", "cpu")


@pytest.mark.slow
def test_only_who_may_use_a_partition_is_sent_there(slurm: Cluster, daemon: RealDaemon) -> None:
    """``reserved`` is the fastest place for this workload, and open to one group only."""
    member = slurm.sbatch("-p", "auto", "--comment=berth:hopper", user=USER)
    other = slurm.sbatch("-p", "auto", "--comment=berth:hopper", user=OTHER_USER)
    assert slurm.job(member.id)["Partition"] in ("reserved", "reserved,gpu")
    assert slurm.job(other.id)["Partition"] == "gpu"
    assert slurm.wait_for_state(other.id) == "COMPLETED"


@pytest.mark.parametrize(
    ("comment", "why"),
    [
        ("", "no workload"),
        ("berth:nobody", "no workload named nobody"),
        ("berth:strange", "outside the range"),
        ("berth:wide", ""),
    ],
)
def test_berth_abstains_where_it_does_not_know(
    slurm: Cluster, daemon: RealDaemon, comment: str, why: str
) -> None:
    job = slurm.sbatch("-p", "auto", f"--comment={comment}")
    assert job.message == ""

    def is_told_by_why() -> bool:
        store = f"sqlite:///{daemon.store_file}"
        return why in " ".join(slurm.berth("why", str(job.id), "--store", store).stdout.split())

    wait_until(is_told_by_why, "berth why says the reason", 20)
    assert slurm.wait_for_state(job.id) == "COMPLETED"
    assert slurm.job(job.id)["Partition"] == "auto"


def test_arrays_are_placed_and_het_jobs_stay_together(slurm: Cluster, daemon: RealDaemon) -> None:
    array = slurm.sbatch("-p", "auto", "--array=0-3", "--comment=berth:stream")
    het = slurm.sbatch("-p", "auto", "--comment=berth:stream", ":", "-p", "gpu")
    for task in range(4):
        assert slurm.wait_for_state(f"{array.id}_{task}") == "COMPLETED"
        assert slurm.job(f"{array.id}_{task}")["Partition"] == "gpu"
    assert slurm.job(f"{het.id}+0")["Partition"] == "auto"
    assert slurm.job(f"{het.id}+1")["Partition"] == "gpu"
    assert stamp_of(slurm, f"{het.id}+0")["code"] == "together"
    slurm.wait_for_state(f"{het.id}+0", "COMPLETED")


def test_a_reloaded_site_file_changes_the_mode_without_restart(
    slurm: Cluster, daemon: RealDaemon
) -> None:
    daemon.write_site("shadow")
    wait_until(lambda: (daemon.ask({"v": 1, "op": "ping"}) or {}).get("mode") == "shadow", "reload")
    job = slurm.sbatch("-p", "auto", "--comment=berth:stream", "--hold")
    assert slurm.job(job.id)["Partition"] == "auto"


def test_a_program_that_failed_at_once_where_it_was_sent_is_not_sent_there_again(
    slurm: Cluster, daemon: RealDaemon
) -> None:
    script = '#!/bin/sh\n[ "$SLURM_JOB_PARTITION" = gpu ] && exit 2\nexit 0\n'

    def submitted() -> Submitted:
        return slurm.sbatch("-p", "auto", "--comment=berth:stream", script=script)

    first = submitted()
    assert slurm.wait_for_state(first.id) == "FAILED"
    assert slurm.job(first.id)["Partition"] == "gpu"
    wait_until(
        lambda: slurm.job(submitted().id)["Partition"] != "gpu", "the place is ruled out", 60
    )
    kept = submitted()
    assert slurm.wait_for_state(kept.id) == "COMPLETED"
    other = slurm.sbatch("-p", "auto", "--comment=berth:brief")
    assert slurm.job(other.id)["Partition"] == "gpu"
    store = f"sqlite:///{daemon.store_file}"
    said = slurm.berth("why", str(kept.id), "--store", store).stdout
    assert re.search(r"job \d+ failed here after \d s", said), said
