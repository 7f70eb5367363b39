"""On a real Slurm that samples memory: what a job's steps held at one time, and in one cluster."""

from __future__ import annotations

import time

import pytest
from other_users import PYTHON
from slurm_cluster import USER, cluster_or_skip, wait_until

from berth.plugin.slurm.accounting import past_jobs

pytestmark = pytest.mark.slow
MIB = 2**20
HELD = 150 * MIB
STEP = f"srun --overlap -n1 {PYTHON} -c 'import time; held = b\"x\" * {HELD}; time.sleep(4)'"
AT_ONCE = "#!/bin/sh\n" + f"{STEP} &\n" * 3 + "wait\n"
IN_TURN = "#!/bin/sh\n" + f"{STEP}\n" * 3


def sampling(files: dict[str, str]) -> dict[str, str]:
    conf = files["slurm.conf"].replace("jobacct_gather/none", "jobacct_gather/linux")
    return {**files, "slurm.conf": f"{conf}JobAcctGatherFrequency=1\n"}


def test_steps_at_once_add_up_and_steps_in_turn_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster_or_skip(amend=sampling, database=()) as slurm:
        slurm.run("sacctmgr", "-i", "add", "account", "free")
        slurm.run("sacctmgr", "-i", "add", "user", USER, "account=free")
        for key, value in slurm.environment.items():
            monkeypatch.setenv(key, value)
        begun_s = time.time() - 5
        asked = ("-p", "cpu", "-n", "3", "--mem=2000")
        at_once, in_turn = (
            str(slurm.sbatch(*asked, script=script).id) for script in (AT_ONCE, IN_TURN)
        )
        wait_until(
            lambda: past_jobs("lab", begun_s).jobs.keys() >= {at_once, in_turn}, "both ended", 90
        )
        jobs = past_jobs("lab", begun_s).jobs
    together, alone = (jobs[job].peak_bytes for job in (at_once, in_turn))
    assert together is not None
    assert alone is not None
    assert HELD < alone < 2 * HELD < 3 * HELD < together
