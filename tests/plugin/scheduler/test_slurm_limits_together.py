"""Limits on what a user's or an account's jobs hold together are told from those on each job."""

from __future__ import annotations

from collections import defaultdict

from berth.plugin.slurm.rights import Accounts
from berth.policies.limits import Limit, Scope, broken


def row(**values: str) -> dict[str, str]:
    return defaultdict(str, values)


ACCOUNTS = Accounts(
    [
        row(account="physics", grptres="gres/gpu=8", grpjobs="50"),
        row(account="physics", user="ada", qos="normal", maxjobs="5", maxtresperjob="cpu=16"),
    ],
    [row(name="normal", maxtresperuser="cpu=64", maxjobsperuser="")],
    [row(user="ada", defaultaccount="physics")],
    partition_qos={},
    limits_enforced=True,
    qos_enforced=True,
)


def test_limits_on_all_jobs_together_are_marked() -> None:
    found = ACCOUNTS.limits("ada", None, None, "cpu")
    assert isinstance(found, tuple)
    own = "the association of ada with account physics"
    assert set(found) == {
        Limit(Scope.JOB, 64.0, "QOS normal", "cpu", together=True),
        Limit(Scope.JOB, 16.0, own, "cpu"),
        Limit(Scope.RUNNING, 5.0, own),
        Limit(Scope.JOB, 8.0, "account physics", "gres/gpu", together=True),
        Limit(Scope.RUNNING, 50.0, "account physics"),
    }


def test_no_job_alone_is_over_a_number_of_jobs_at_a_time() -> None:
    limits = (Limit(Scope.RUNNING, 0.0, "account physics"),)
    assert broken(limits, {"cpu": 1.0}, 1, None) is None
