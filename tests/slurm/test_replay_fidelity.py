"""A replay with Slurm's configuration says what a real Slurm then did, within its latencies."""

from __future__ import annotations

import pytest
from one_pool_cluster import OnePool
from replay_fidelity import in_replay, on_slurm, workload
from slurm_cluster import cluster_or_skip


@pytest.mark.slurm
def test_a_replay_waits_as_slurms_backfill_does() -> None:
    """`make replay-fidelity` compares 500 jobs; a busy machine shifts these few by its delays."""
    jobs = workload(16, load=4.0, median_s=0.4)
    with cluster_or_skip(OnePool, backfill=True) as slurm:
        ran = on_slurm(slurm, jobs, timeout_s=60)
    wait_s, makespan_s = in_replay(jobs, ran, ran.overheads_s, backfill=True)
    assert ran.mean_wait_s > 0.5  # jobs did wait
    assert abs(wait_s - ran.mean_wait_s) <= max(2.0, 0.3 * ran.mean_wait_s)
    assert abs(makespan_s - ran.makespan_s) <= max(2.0, 0.3 * ran.makespan_s)
