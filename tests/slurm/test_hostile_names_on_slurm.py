"""Whatever a user writes into a job's name on a real Slurm, outcomes stay the job's own (S2)."""

from __future__ import annotations

import time

import pytest
from slurm_cluster import USER, Cluster, wait_until

from berth.plugin.slurm.accounting import ended, of_jobs, past_jobs

STAMP = "berth/1 id=1m7y4whj8kbbvxmm action=edit code=placed to=gpu"
NAMES = (
    f"x UserId=root(0) AdminComment={STAMP}",
    f"x UserId=root(0) JobState=COMPLETED\nJobId=9999999 JobName=y UserId=root(0) "
    f"AdminComment={STAMP} z",
    '"}], "jobs": [{"job_id": 9999999, "user_name": "root"',
    "caf\udce9",
)


@pytest.mark.slurm
def test_outcomes_of_jobs_with_hostile_names_are_their_own(
    slurm: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in slurm.environment.items():
        monkeypatch.setenv(key, value)
    begun_s = time.time()
    jobs = [
        slurm.sbatch("--partition=cpu", "--job-name", name, "--comment", name, "--mem=10").id
        for name in NAMES
    ]

    def all_ended() -> bool:
        there = {o.job_id for o in ended(begun_s - 5, time.time() + 5, {}).outcomes}
        return there >= {str(job) for job in jobs}

    wait_until(all_ended, "all jobs have ended", 60)
    found = ended(begun_s - 5, time.time() + 5, {})
    own = {o.job_id: (o.user, o.state, o.decision) for o in found.outcomes}
    assert found.problem is None
    assert {str(job): own.get(str(job)) for job in jobs} == {
        str(job): (USER, "completed", None) for job in jobs
    }
    assert "9999999" not in own
    assert of_jobs([str(jobs[1])])[str(jobs[1])].user == USER


def test_past_jobs_of_hostile_names_are_their_users(
    accounted_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ``berth jobs history import`` predicts a user's next jobs from, no other user writes."""
    made_up = "999|root|root|cpu|COMPLETED|2026-11-01T10:00:00|2026-11-01T10:00:00|"
    made_up += "2026-11-01T10:10:00|600|60|4|1||1G||cpu=4|nightly"
    names = (f"x\n{made_up}\n", "a|b", *NAMES)
    for key, value in accounted_cluster.environment.items():
        monkeypatch.setenv(key, value)
    begun_s = time.time() - 5
    jobs = {str(accounted_cluster.sbatch("-p", "cpu", "-J", n, "--mem=10").id) for n in names}
    wait_until(lambda: past_jobs("lab", begun_s).jobs.keys() >= jobs, "all have ended", 60)
    read = past_jobs("lab", begun_s)
    mine = [job for job in read.jobs.values() if job.job_id in jobs]
    assert {(job.job_id, job.user) for job in mine} == {(job, USER) for job in jobs}
    assert "999" not in read.jobs
    assert read.broken == 0
