"""Replays worked out by hand: who starts when under FCFS, EASY and replanned backfill."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from replay_validation import problems

from berth.pilot.errors import UsageError
from berth.policies.replay import (
    Backfill,
    Cluster,
    NodeKind,
    Option,
    Partition,
    Present,
    Replayed,
    Reservation,
    Settings,
    Trace,
    metrics,
    one_pool,
    replay,
    trace_of,
)

ALL = list(Backfill)
POOLED = [True, False]


def jobs(*rows: tuple[float, float, int], limits: list[float] | None = None) -> Trace:
    """(submitted, runs, cores); asked for as long as it runs."""
    submit, run, cores = (np.array(column) for column in zip(*rows, strict=True))
    asked = np.array(limits, float) if limits else run.astype(float)
    return trace_of(submit.astype(float), run.astype(float), cores, limit_s=asked, queues=("all",))


def starts(
    trace: Trace, backfill: Backfill, *, cores: int = 4, pooled: bool = True, **settings: object
) -> list[float]:
    cluster = replace(one_pool(cores), pooled=pooled)
    return run(trace, cluster, backfill, **settings).start_s.tolist()


def run(trace: Trace, cluster: Cluster, backfill: Backfill, **settings: object) -> Replayed:
    how = {"backfill_s": 0.0, **settings}
    replayed = replay(trace, cluster, Settings(backfill, compiled=False, **how))  # type: ignore[arg-type]
    assert replayed.counts.adds_up
    return replayed


HOLE = jobs((0, 10, 3), (1, 10, 4), (2, 5, 1), (3, 20, 1))
WIDE_LAST = jobs((0, 10, 3), (1, 10, 2), (2, 10, 4), (3, 20, 1))
EARLY = jobs((0, 10, 4), (1, 10, 4), (2, 10, 4), limits=[100, 10, 10])
NO_PLAN = replace(jobs((0, 10, 4), (1, 5, 4), (2, 5, 1)), planned_s=np.array([10.0, 0.0, 0.0]))
SHORT_ONE = jobs((0, 100, 3), (1, 100, 4), (2, 50, 1))
AT_ONCE = jobs((0, 10, 3), (1, 10, 4), (1, 9, 1))


@pytest.mark.parametrize("pooled", POOLED)
@pytest.mark.parametrize(
    ("why", "trace", "backfills", "settings", "expected"),
    [
        ("nobody passes a wide job", HOLE, [Backfill.FCFS], {}, [0, 10, 20, 20]),
        ("a short narrow job fills the hole before it",
         HOLE, [Backfill.EASY], {}, [0, 10, 2, 20]),
        ("EASY may delay the second waiting job", WIDE_LAST, [Backfill.EASY], {}, [0, 10, 23, 3]),
        ("one that ends early moves reservations forward", EARLY, ALL, {}, [0, 10, 20]),
        ("a job planned to take no time waits for room", NO_PLAN, ALL, {}, [0, 10, 15]),
        ("a pass at 0, the next backfill at 30",
         SHORT_ONE, [Backfill.REPLANNED], {"backfill_s": 30.0}, [0, 100, 30]),
        ("a backfill at every event", SHORT_ONE, [Backfill.REPLANNED], {}, [0, 100, 2]),
    ],
)  # fmt: skip
def test_who_starts_when(
    why: str,
    trace: Trace,
    backfills: list[Backfill],
    settings: dict[str, float],
    expected: list[float],
    pooled: bool,
) -> None:
    for backfill in backfills:
        assert starts(trace, backfill, pooled=pooled, **settings) == expected, (why, backfill)


def test_a_coarse_backfill_lets_no_job_end_where_another_begins() -> None:
    assert starts(AT_ONCE, Backfill.REPLANNED) == [0, 10, 1]
    assert starts(AT_ONCE, Backfill.REPLANNED, resolution_s=1.0) == [0, 10, 20]


@pytest.mark.parametrize("pooled", POOLED)
@pytest.mark.parametrize("backfill", ALL)
def test_a_time_limit_kills_unless_told_not_to(backfill: Backfill, pooled: bool) -> None:
    trace = jobs((0, 100, 4), (1, 10, 4), limits=[20, 10])
    cluster = replace(one_pool(4), pooled=pooled)
    replayed = run(trace, cluster, backfill)
    assert replayed.end_s.tolist() == [20, 30]
    assert replayed.killed.tolist() == [True, False]
    assert replayed.counts.killed == 1
    spared = run(trace, cluster, backfill, kill_at_limit=False)
    assert spared.end_s.tolist() == [100, 110]
    assert spared.counts.killed == 0


@pytest.mark.parametrize("pooled", POOLED)
def test_a_dependent_job_waits_for_its_parent_and_its_wait_counts_from_then(pooled: bool) -> None:
    base = jobs((0, 10, 1), (1, 5, 1), (2, 5, 1))
    trace = replace(base, after=np.array([-1, 0, 1]))
    replayed = run(trace, replace(one_pool(4), pooled=pooled), Backfill.EASY)
    assert replayed.start_s.tolist() == [0, 10, 15]
    assert replayed.wait_s.tolist() == [0, 0, 0]


@pytest.mark.parametrize("pooled", POOLED)
def test_an_array_runs_no_more_tasks_at_once_than_its_limit(pooled: bool) -> None:
    base = jobs(*[(0, 10, 1)] * 4)
    trace = replace(base, array=np.zeros(4, np.int64), array_limits={0: 2})
    assert starts(trace, Backfill.EASY, pooled=pooled) == [0, 0, 10, 10]


def two_partitions(**changes: object) -> Cluster:
    """``all`` has nodes 0 to 3, ``small`` shares nodes 0 and 1."""
    base = Cluster(
        (NodeKind("cpu", 4, 2),),
        (Partition("all", ("cpu",)), Partition("small", ("cpu",), nodes=(0, 1))),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def test_partitions_that_share_nodes_never_share_cores() -> None:
    base = jobs((0, 10, 8), (1, 10, 4), (2, 10, 4))
    trace = replace(base, queue=np.array([0, 1, 0]), queues=("all", "small"))
    replayed = run(replace(trace, nodes=np.array([4, 2, 2])), two_partitions(), Backfill.EASY)
    assert replayed.start_s.tolist() == [0, 10, 10]
    assert [one.tolist() for one in replayed.units] == [[0, 1, 2, 3], [0, 1], [2, 3]]


def test_memory_of_nodes_keeps_jobs_apart() -> None:
    cluster = Cluster((NodeKind("n", 1, 8, memory_bytes=8 * 2**30),), (Partition("p", ("n",)),))
    trace = replace(jobs((0, 10, 1), (0, 10, 1)), memory_bytes=np.array([5, 5]) * 2**30)
    assert run(trace, cluster, Backfill.EASY).start_s.tolist() == [0, 10]


def test_gpus_are_counted_beside_cores() -> None:
    cluster = Cluster((NodeKind("g", 2, 8, gpus=2),), (Partition("g", ("g",)),))
    trace = replace(jobs((0, 10, 1), (0, 10, 1), (0, 10, 1)), gpus=np.array([2, 1, 2]))
    replayed = run(trace, cluster, Backfill.FCFS)
    assert replayed.start_s.tolist() == [0, 0, 10]
    pooled = run(trace, replace(cluster, pooled=True), Backfill.FCFS)
    assert pooled.start_s.tolist() == [0, 0, 10]


@pytest.mark.parametrize("backfill", ALL)
def test_no_job_runs_into_a_reservation_of_the_site(backfill: Backfill) -> None:
    cluster = two_partitions(reservations=(Reservation("cpu", (0, 1, 2, 3), 20.0, 50.0),))
    trace = jobs((0, 15, 8), (1, 10, 8), (2, 3, 2))
    replayed = run(trace, cluster, backfill)
    assert replayed.start_s.tolist() == [0, 50, 60 if backfill is Backfill.FCFS else 15]


@pytest.mark.parametrize("backfill", ALL)
@pytest.mark.parametrize("pooled", POOLED)
def test_a_job_in_two_partitions_starts_where_it_can_first(
    backfill: Backfill, pooled: bool
) -> None:
    class Both:
        def place(self, job: int, present: Present) -> list[Option]:
            return [Option(p, 1, 1, 0, 0, 10.0 * (1 + p), 10.0 * (1 + p), 100.0) for p in (0, 1)]

    cluster = Cluster(
        (NodeKind("a", 1, 1), NodeKind("b", 1, 1)),
        (Partition("a", ("a",)), Partition("b", ("b",))),
        pooled=pooled,
    )
    trace = replace(jobs((0, 10, 1), (0, 10, 1), (0, 10, 1)), queues=("a",))
    replayed = replay(trace, cluster, Settings(backfill, compiled=False), Both())
    assert replayed.start_s.tolist() == [0, 0, 10]
    assert replayed.partition.tolist() == [0, 1, 0]
    assert replayed.end_s.tolist() == [10, 20, 20]
    assert replayed.counts.moved == 1
    assert replayed.counts.adds_up


@pytest.mark.parametrize("pooled", POOLED)
@pytest.mark.parametrize("backfill", [Backfill.FCFS, Backfill.EASY])
def test_a_job_in_two_partitions_starts_in_the_one_that_it_names_first(
    backfill: Backfill, pooled: bool
) -> None:
    class SecondFirst:
        def place(self, job: int, present: Present) -> list[Option]:
            return [Option(p, 1, 1, 0, 0, 10.0, 10.0, 100.0) for p in (1, 0)]

    cluster = Cluster(
        (NodeKind("a", 1, 1), NodeKind("b", 1, 1)),
        (Partition("a", ("a",)), Partition("b", ("b",))),
        pooled=pooled,
    )
    trace = replace(jobs((0, 10, 1), (1, 10, 1), (12, 10, 1)), queues=("a",))
    replayed = replay(trace, cluster, Settings(backfill, compiled=False), SecondFirst())
    assert replayed.start_s.tolist() == [0, 1, 12]
    assert replayed.partition.tolist() == [1, 0, 1]


def test_jobs_that_cannot_be_replayed_are_refused_with_a_reason() -> None:
    base = jobs((0, 10, 9), (1, -1, 1), (2, 10, 1), (3, 10, 1), (4, 10, 1))
    trace = replace(
        base,
        runtime_s=np.array([10, -1, np.nan, 10, 10]),
        queue=np.array([0, 0, 0, 1, 0]),
        queues=("all", "nowhere"),
    )
    cluster = Cluster(
        (NodeKind("n", 4, 2), NodeKind("m", 1, 1)),
        (Partition("all", ("n",)), Partition("other", ("m",))),
    )
    replayed = run(trace, cluster, Backfill.EASY)
    assert replayed.counts.refused == {
        "larger than its partition": 1,
        "no known run time": 1,
        "an unknown partition": 1,
        "a negative number": 1,
    }
    assert (replayed.counts.read, replayed.counts.replayed, replayed.counts.ended) == (5, 1, 1)


def test_an_empty_trace_gives_no_figures_and_no_traceback() -> None:
    empty = trace_of(np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
    for pooled in POOLED:
        for backfill in ALL:
            replayed = run(empty, replace(one_pool(4), pooled=pooled), backfill)
            assert metrics(replayed).jobs == 0
            assert np.isnan(metrics(replayed).mean_wait_s)


def test_a_policy_that_gives_impossible_options_is_named() -> None:
    class Wrong:
        def place(self, job: int, present: Present) -> list[Option]:
            return [Option(0, 1, 1, 0, 0, -1.0, 1.0, 1.0)]

    with pytest.raises(UsageError, match="job 0"):
        replay(jobs((0, 10, 1)), one_pool(4), Settings(compiled=False), Wrong())


@pytest.mark.parametrize("pooled", POOLED)
def test_what_a_scheduler_costs_is_part_of_the_wait(pooled: bool) -> None:
    # Passes at 0, 5, 10, ...; a job begins 1 s after its pass, its cores are free 2 s after it.
    trace = jobs((0, 10, 4), (1, 10, 4), (16, 1, 1))
    costs = {"cycle_s": 5.0, "start_overhead_s": 1.0, "end_overhead_s": 2.0}
    cluster = replace(one_pool(4), pooled=pooled)
    for backfill in ALL:
        replayed = run(trace, cluster, backfill, **costs)
        assert replayed.start_s.tolist() == [1, 16, 31]
        assert replayed.end_s.tolist() == [11, 26, 32]
        assert problems(replayed) == []


DAY_S = 86_400.0


@pytest.mark.parametrize("longest_s", [None, 2 * DAY_S])
def test_a_job_without_a_limit_is_killed_only_at_its_partitions(longest_s: float | None) -> None:
    trace = jobs((0, int(3 * DAY_S), 4), (10, 3600, 4), limits=[math.nan, math.nan])
    pool = one_pool(4)
    cluster = replace(
        pool, partitions=tuple(replace(p, max_time_s=longest_s) for p in pool.partitions)
    )
    ended = run(trace, cluster, Backfill.EASY)
    assert ended.killed.tolist() == [longest_s is not None, False]
    assert ended.end_s[0] == (longest_s or 3 * DAY_S)
    assert ended.start_s[1] == ended.end_s[0]


def test_backfill_plans_a_day_for_a_job_without_a_limit() -> None:
    trace = jobs(
        (0, int(3 * DAY_S), 3), (1, 10, 4), (2, int(DAY_S) - 100, 1), (3, int(2 * DAY_S), 1),
        limits=[math.nan, 10, DAY_S - 100, 2 * DAY_S],
    )  # fmt: skip
    assert starts(trace, Backfill.EASY)[2] == 2
    assert starts(trace, Backfill.EASY)[3] > DAY_S
