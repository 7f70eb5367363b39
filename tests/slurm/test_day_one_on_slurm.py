"""Jobs of unknown programs on a real Slurm: each runs wherever some partition takes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from day_one import BATCH, DayOne, first_day, submit_all, takes
from slurm_cluster import Cluster, cluster_or_skip

pytestmark = pytest.mark.slow


@pytest.fixture(params=["", "EnforcePartLimits=ALL", "EnforcePartLimits=ANY"], scope="module")
def five_partitions(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with cluster_or_skip(DayOne, conf=[request.param]) as running:
        yield running


def test_no_batch_job_is_refused_or_waits_that_some_partition_takes(
    five_partitions: Cluster,
) -> None:
    with first_day(five_partitions, "enforce"):
        rows = submit_all(five_partitions, BATCH)
    failed = [row for row in rows if row.failed and takes(five_partitions, row.options)]
    assert failed == []
    listed = sum(row.code in ("fits", "fits-one") for row in rows)
    assert listed > len(rows) / 2  # others start at once as written, where the lists have no room
    assert all(row.ran_in in row.asked_partitions.split(",") for row in rows if row.job_id)


def test_with_the_mode_off_jobs_stay_as_written(five_partitions: Cluster) -> None:
    few = {"one core": BATCH["one core"], "64 threads": BATCH["64 threads"]}
    with first_day(five_partitions, "off"):
        rows = submit_all(five_partitions, few)
    assert {row.asked_partitions for row in rows if row.partition == "auto"} == {"auto"}


COSTLY = {
    "auto": "TRESBillingWeights=CPU=1.0,Mem=0.25G",
    "new": "TRESBillingWeights=CPU=2.0,Mem=0.25G PriorityTier=10",
    "old": "TRESBillingWeights=CPU=1.0,Mem=0.25G PriorityTier=10",
    "bigmem": "TRESBillingWeights=CPU=1.0,Mem=0.25G PriorityTier=1 PreemptMode=REQUEUE",
    "gpu": "TRESBillingWeights=CPU=9.0 PriorityTier=10",
}


def test_partitions_that_bill_more_or_are_interrupted_are_not_on_the_list() -> None:
    owner = "PartitionName=owner Nodes=big1 PriorityTier=20 PreemptMode=OFF AllowGroups=root"
    conf = ("PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE", owner)
    with (
        cluster_or_skip(DayOne, conf=conf, words=COSTLY) as slurm,
        first_day(slurm, "enforce"),
    ):
        shapes = ("one core", "AVX-512", "a GPU", "1 TiB")
        rows = submit_all(slurm, {shape: BATCH[shape] for shape in shapes})
    lists = {row.shape: row.asked_partitions for row in rows if row.partition == "auto"}
    assert lists["one core"] == "old"  # new bills more, bigmem is interrupted
    assert lists["AVX-512"] == "auto"  # the nodes of new bill less there
    assert lists["a GPU"] == "gpu"  # no node of auto has one
    assert lists["1 TiB"] == "bigmem"  # no node of auto has as much; auto is interrupted as well
