"""The memory of a job is what its steps held together on one node, or unknown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import DocumentError
from berth.pilot.usage.record import JOB_END, Usage
from berth.plugin.history.decided_jobs import with_usage
from berth.plugin.scheduler.past_jobs import ReadJobs, summary
from berth.plugin.slurm.sacct import OTHER_CLUSTERS, read_sacct
from berth.plugin.store import Store

GIB = 2**30
COLUMNS = "JobID|User|State|Start|End|ElapsedRaw|AllocCPUS|NNodes|NTasks|MaxRSS|AllocTRES"
USED = f"{COLUMNS}|TRESUsageInMax|NodeList|JobName".split("|")


def job(columns: list[str] = USED, /, **values: str) -> str:
    """Return a line of sacct, of a job of a minute on one node unless ``values`` say otherwise."""
    usual = {
        "JobID": "7", "User": "ann", "State": "COMPLETED", "Start": "2026-11-01T08:00:00",
        "End": "2026-11-01T08:01:00", "ElapsedRaw": "60", "AllocCPUS": "64", "NNodes": "1",
        "AllocTRES": "cpu=64,gres/gpu=4", "NodeList": "n1", "JobName": "farm.sh",
    }  # fmt: skip
    return "|".join({**usual, **values}.get(column, "") for column in columns)


def step(
    name: object, gib: float | None, *, begin: int = 0, end: int = 60, tasks: str = "1", **more: str
) -> str:
    """Return a line of a step of job 7 whose largest task held ``gib``, from second ``begin``."""
    moments = [f"2026-11-01T08:{second // 60:02}:{second % 60:02}" for second in (begin, end)]
    values = {
        "JobID": f"7.{name}", "User": "", "Start": moments[0], "End": moments[1],
        "ElapsedRaw": str(end - begin), "NTasks": tasks,
        "MaxRSS": "" if gib is None else f"{round(gib * 2**20)}K",
    } | more  # fmt: skip
    return job(**values)


def read(*lines: str, columns: list[str] = USED, cluster: str = "lab") -> ReadJobs:
    return read_sacct(["|".join(columns), *lines], cluster, source="jobs.txt", utc=True)


def peak_of(*steps: str, nodes: int = 1) -> float | None:
    peak = read(job(NNodes=str(nodes)), *steps).jobs["7"].peak_bytes
    return None if peak is None else peak / GIB


TWO_NODES = {"NNodes": "2", "NodeList": "n[1-2]"}
SECOND = {"NodeList": "n2"}


@pytest.mark.parametrize(
    ("steps", "nodes", "gib"),
    [
        ([step(n, 10) for n in range(16)], 1, 160),  # a farm of steps in one job
        ([step(n, 10, begin=n, end=n + 1) for n in range(16)], 1, 10),  # one after the other
        ([step(0, 10, end=30), step(1, 8, begin=20), step(2, 7, begin=30)], 1, 18),
        ([step(n, 10, end=0) for n in range(16)], 1, 10),  # in one second: one after the other
        ([step("batch", 1), step("extern", None), *(step(n, 2) for n in range(3))], 1, 7),
        ([step("batch", 3, tasks=""), step("extern", None, tasks="")], 1, 3),
        ([step("0", 2, tasks="8", **TWO_NODES)], 2, 8),
        ([step(0, 9), step(1, 4, **SECOND), step(2, 4, **SECOND)], 2, 9),  # on two nodes
        ([step("batch", 1), step(0, 9), step(1, 4, **SECOND)], 2, 10),
        ([step(0, 5, **TWO_NODES), step(1, 9, **SECOND), step("batch", 1)], 2, 14),
        ([step(0, 5, **TWO_NODES), step(1, 6, **TWO_NODES)], 2, 11),
        # unknown: a part cannot be told
        ([step("batch", 0.01), step(0, 2, tasks="")], 1, None),
        ([step(0, 2), step(1, None)], 1, None),
        ([step(0, 2), step(1, 3, Start="Unknown")], 1, None),
        ([step(0, 2, NodeList=""), step(1, 3, NodeList="")], 2, None),
        ([step(0, 2, NodeList="n[1"), step(1, 3)], 2, None),
        ([step(0, 0), step(1, 0)], 1, None),  # not sampled
        ([], 1, None),
        ([step("batch", 0.01), step(0, None, end=29)], 1, None),  # half of the job
        # nothing is missing of a step too short for a sample, or that has not ended
        ([step(0, 2), step(1, None, end=0)], 1, 2),
        ([step("batch", 2), step(0, None, end=6)], 1, 2),
        ([step("batch", None), step(0, None, end=0)], 1, None),
        ([step(0, 2), step(1, 3, begin=50, End="Unknown")], 1, 5),
    ],
)
def test_steps_that_overlap_add_up_on_their_node(
    steps: list[str], nodes: int, gib: float | None
) -> None:
    assert peak_of(*steps, nodes=nodes) == gib


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 30), st.integers(1, 29)), min_size=1))
def test_a_peak_is_between_the_largest_step_and_all_of_them(
    steps: list[tuple[int, int, int]],
) -> None:
    lines = [
        step(n, gib, begin=begin, end=begin + took) for n, (gib, begin, took) in enumerate(steps)
    ]
    peak = peak_of(*lines)
    at_each = [sum(gib for gib, begin, took in steps if begin <= s < begin + took)
               for s in range(60)]  # fmt: skip
    assert peak == max(at_each) == peak_of(*reversed(lines))


@pytest.mark.parametrize(
    ("gpus", "gib"), [("1", 3.0), ("2", 9.0)], ids=["each its own", "shared by all"]
)
def test_steps_add_up_on_gpus_that_they_share(gpus: str, gib: float) -> None:
    used = {"TRESUsageInMax": "gres/gpumem=3G", "AllocTRES": f"gres/gpu={gpus}"}
    assert (
        read(job(), *(step(n, 1, **used) for n in range(3))).jobs["7"].gpu_peak_bytes == gib * GIB
    )


def test_steps_with_an_unknown_number_of_tasks_tell_nothing_of_gpus() -> None:
    used = {"TRESUsageInMax": "gres/gpumem=3G,gres/gpuutil=50", "TRESUsageInAve": "gres/gpuutil=50"}
    found = read(job(), step(0, 1, tasks="", **used), step(1, 1, **used)).jobs["7"]
    assert (found.gpu_peak_bytes, found.gpu_utilisation, found.gpu_utilisation_peak) == (None,) * 3


def test_jobs_whose_memory_cannot_be_told_are_counted() -> None:
    assert summary(read(job(), step(0, 2, tasks=""))) == [
        "1 jobs ran steps whose memory together cannot be told (columns MaxRSS, NTasks, Start, End "
        "and NodeList of every step): their peak is unknown"
    ]
    assert summary(read(job(), step(0, None))) == []  # a site that samples nothing


WITH_CLUSTER = ["Cluster", *USED]
TWO_CLUSTERS = [
    f"north|{job(User='alice')}",
    f"north|{step('batch', 1)}",
    f"south|{job(User='bob')}",
    f"south|{step('batch', 100)}",
]


@pytest.mark.parametrize(("cluster", "user", "gib"), [("north", "alice", 1), ("south", "bob", 100)])
def test_one_id_of_two_clusters_is_two_jobs(cluster: str, user: str, gib: int) -> None:
    found = read(*TWO_CLUSTERS, columns=WITH_CLUSTER, cluster=cluster)
    (only,) = found.jobs.values()
    assert (only.user, only.cluster, only.peak_bytes) == (user, cluster, gib * GIB)
    assert found.changed == {OTHER_CLUSTERS: 1}


def test_a_file_of_two_other_clusters_is_refused_and_of_one_is_read() -> None:
    with pytest.raises(DocumentError, match="several clusters: north, south") as caught:
        read(*TWO_CLUSTERS, columns=WITH_CLUSTER)
    assert "--cluster" in str(caught.value.hint)
    (only,) = read(*TWO_CLUSTERS[:2], columns=WITH_CLUSTER).jobs.values()
    assert (only.cluster, only.peak_bytes) == ("lab", GIB)


@pytest.mark.parametrize(("nodes", "gib"), [(["n1", "n2"], 8), (["n2"], 3)])
def test_what_some_nodes_of_a_job_tell_is_not_the_jobs(
    nodes: list[str], gib: int, tmp_path: Path
) -> None:
    store = Store.open(tmp_path / "store.db")
    store.past_jobs.put(list(read(job(NNodes="2"), step("batch", 3)).jobs.values()))
    store.usages.put([Usage("lab", "7", JOB_END, node=node, peak_bytes=8 * GIB) for node in nodes])
    (only,) = with_usage(store, list(store.past_jobs.of_users()))
    assert only.peak_bytes == gib * GIB
