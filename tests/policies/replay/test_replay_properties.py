"""Random traces: every replay passes the independent validator; pools agree with nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_validation import problems
from thorough import examples

from berth.policies.replay import (
    Backfill,
    Cluster,
    NodeKind,
    Partition,
    Settings,
    Trace,
    one_pool,
    replay,
    trace_of,
)

CORES = 8
JOB = st.tuples(
    st.integers(0, 30),  # after the one before
    st.integers(0, 40),  # runs
    st.integers(0, 40),  # asked for more than that
    st.integers(1, CORES),
    st.integers(0, 2),  # user
)


def trace_from(rows: list[tuple[int, int, int, int, int]]) -> Trace:
    gap, run, more, cores, user = (np.array(c, np.int64) for c in zip(*rows, strict=True))
    return trace_of(
        np.cumsum(gap).astype(float), run.astype(float), cores,
        limit_s=np.maximum(run + more - 5, 1).astype(float), user=user, queues=("all",),
    )  # fmt: skip


TRACES = st.lists(JOB, min_size=1, max_size=25).map(trace_from)
MODES = st.sampled_from(list(Backfill))


def check(trace: Trace, how: Settings) -> None:
    """The replay on a pool and that on nodes are valid, lose no job, and agree."""
    pooled = replay(trace, one_pool(CORES), how)
    nodes = replay(trace, replace(one_pool(CORES), pooled=False), how)
    assert problems(pooled) == problems(nodes) == []
    assert pooled.counts.ended == len(trace)
    if how.backfill is not Backfill.REPLANNED:  # its reservations hold nodes whole
        assert nodes.start_s.tolist() == pooled.start_s.tolist()


@given(TRACES, MODES, st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_every_replay_is_valid_and_pools_agree_with_nodes(
    trace: Trace, mode: Backfill, kill: bool
) -> None:
    check(trace, Settings(mode, kill_at_limit=kill, compiled=False))


@given(TRACES, st.data())
@settings(max_examples=examples(25), deadline=None)
def test_predicted_times_that_are_wrong_lose_no_job(trace: Trace, data: st.DataObject) -> None:
    size = len(trace)
    planned = data.draw(st.lists(st.integers(0, 60), min_size=size, max_size=size))
    trace = replace(trace, planned_s=np.array(planned, float))
    for mode in Backfill:
        check(trace, Settings(mode, compiled=False))


@given(TRACES, MODES, st.data())
@settings(max_examples=examples(25), deadline=None)
def test_overlapping_partitions_dependencies_and_arrays(
    trace: Trace, mode: Backfill, data: st.DataObject
) -> None:
    size = len(trace)
    after = [data.draw(st.integers(-1, i - 1)) if i % 3 == 2 else -1 for i in range(size)]
    queue = data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    array = data.draw(st.lists(st.integers(-1, 1), min_size=size, max_size=size))
    cluster = Cluster(
        (NodeKind("n", 4, 4),),
        (Partition("all", ("n",)), Partition("some", ("n",), nodes=(1, 2))),
    )
    trace = replace(
        trace, after=np.array(after), queue=np.array(queue), queues=("all", "some"),
        array=np.array(array), array_limits={0: 1},
    )  # fmt: skip
    replayed = replay(trace, cluster, Settings(mode, compiled=False))
    assert problems(replayed) == []
    assert replayed.counts.ended == size
    of_one = np.flatnonzero(trace.array == 0)
    for i in of_one:
        for j in of_one:
            overlap = (
                replayed.start_s[i] < replayed.end_s[j] and replayed.start_s[j] < replayed.end_s[i]
            )
            assert i == j or not overlap


@pytest.mark.parametrize("column", ["start_s", "end_s"])
def test_the_validator_notices_what_is_wrong(column: str) -> None:
    trace = trace_from([(0, 10, 10, 8, 0), (1, 10, 10, 8, 0), (1, 5, 5, 4, 0)])
    good = replay(trace, one_pool(CORES), Settings(Backfill.EASY, compiled=False))
    assert problems(good) == []
    broken = good.start_s.copy(), good.end_s.copy()
    broken[0][1], broken[1][1] = 5.0, 15.0  # beside the first, which has all cores
    assert any("holds" in p for p in problems(replace(good, start_s=broken[0], end_s=broken[1])))
    early = good.start_s - 3.0
    assert any("before it is submitted" in p for p in problems(replace(good, start_s=early)))
    counts = replace(good.counts, ended=2)
    assert any("add up" in p for p in problems(replace(good, counts=counts)))
    assert column in vars(good)


def test_the_validator_notices_a_delayed_reservation() -> None:
    trace = trace_from([(0, 10, 5, 6, 0), (1, 10, 5, 8, 0), (1, 30, 5, 2, 0)])
    good = replay(trace, one_pool(CORES), Settings(Backfill.EASY, compiled=False))
    assert good.start_s.tolist() == [0, 10, 20]
    start, end = np.array([0.0, 32.0, 2.0]), np.array([10.0, 42.0, 32.0])
    late = replace(good, start_s=start, end_s=end)
    assert any("EASY: job 2 delays job 1" in p for p in problems(late))
