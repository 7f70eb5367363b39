"""MIG in a replay: slices that are there, and what a cut costs."""

from __future__ import annotations

import numpy as np
import pytest
from replay_validation import problems

from berth.pilot.errors import UsageError
from berth.policies.mig import lookup
from berth.policies.replay import (
    Backfill,
    Cluster,
    NodeKind,
    Partition,
    Replayed,
    Settings,
    metrics,
    replay,
    trace_of,
)
from berth.policies.replay.changes import changed

WHOLE, SMALL = "gpu-mig-7g.40gb", "gpu-mig-1g.5gb"
QUEUES = (SMALL, WHOLE)
NODES = Cluster(
    (NodeKind("gpu", 2, 16, gpus=1, platform="A100-40GB", price_per_gpu_hour=7.0),),
    (Partition("gpu", ("gpu",)),),
)
CUT = changed(NODES, ["nodes.gpu.mig=2"])


def replayed(rows: list[tuple[float, float, str]], cluster: Cluster = CUT) -> Replayed:
    """Replay jobs of (submission, run time, partition)."""
    submit, run, queue = zip(*rows, strict=True)
    jobs = trace_of(
        np.array(submit, float), np.array(run, float), np.ones(len(rows), np.int64),
        gpus=np.ones(len(rows), np.int64), queue=np.array([QUEUES.index(q) for q in queue]),
        queues=QUEUES,
    )  # fmt: skip
    result = replay(jobs, cluster, Settings(Backfill.EASY, compiled=False))
    assert problems(result) == []
    assert result.counts.adds_up
    return result


def test_a_gpu_gives_only_the_slices_into_which_it_is_cut() -> None:
    result = replayed([(0, 10, WHOLE), (0, 10, WHOLE), (0, 10, WHOLE), (1, 10, SMALL)])
    assert result.start_s[:3].tolist() == [0, 0, 10]
    assert sum(result.counts.refused.values()) == 1  # no slice of its profile is there


def test_a_layout_says_which_slices_are_there_and_what_they_cost() -> None:
    sevenths = " ".join(f"1g.5gb@{place}" for place in range(7))
    cut = changed(NODES, ["nodes.gpu.mig=1", f"nodes.gpu-mig.layout={sevenths}"])
    result = replayed([(0, 50, SMALL)] * 8, cut)
    assert result.start_s.tolist() == [0] * 7 + [50]
    assert metrics(result).cost == pytest.approx(8 * 50 * 1 / 3600)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["nodes.gpu.mig=3"], "has 2 nodes"),
        (["nodes.gpu.mig=1", "nodes.gpu-mig.layout=4g.20gb@4"], "may start"),
        (["nodes.gpu.layout=7g.40gb@0"], "no GPUs 'gpu' are cut"),
        (["nodes.gpu.mig=1", "nodes.gpu-mig-1g.5gb.count=+1"], "are slices"),
        (["nodes.gpu.gpus=0", "nodes.gpu.mig=1"], "no GPUs to cut"),
    ],
)
def test_a_cut_that_cannot_be_says_why(changes: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        changed(NODES, changes)


def test_slices_are_counted_as_parts_of_their_gpus() -> None:
    assert lookup("A100-40GB").gpu == "A100-40GB"
    assert CUT.whole_gpus == 2
    assert CUT.kind("gpu").count == 0
    result = replayed([(0, 70, WHOLE), (0, 70, WHOLE)])
    assert metrics(result).gpu_utilisation == 1.0
