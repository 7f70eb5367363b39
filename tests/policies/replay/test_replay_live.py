"""The queue as it stands, replayed forward: who starts when, with what interval."""

from __future__ import annotations

import numpy as np
import pytest
from replay_validation import problems

from berth.policies.replay import (
    Backfill,
    Cluster,
    NodeKind,
    Option,
    Partition,
    Present,
    Settings,
    one_pool,
    trace_of,
)
from berth.policies.replay.live import Queue, TotalTimes, foresee

NOW_S = 1_000_000.0


def times(*rows: tuple[float, float, float]) -> TotalTimes:
    return TotalTimes(*(np.array(column, float) for column in zip(*rows, strict=True)))


def queue(running: int, *rows: tuple[float, float, int]) -> Queue:
    """(elapsed, limit, cores), those that run first; each runs on the node of its number."""
    elapsed, limit, cores = (np.array(column) for column in zip(*rows, strict=True))
    trace = trace_of(
        np.full(len(rows), NOW_S), np.ones(len(rows)), cores, limit_s=limit.astype(float),
        queues=("all",),
    )  # fmt: skip
    held = tuple(np.array([k], np.int64) for k in range(running))
    return Queue(trace, NOW_S, elapsed.astype(float), held)


def test_draws_are_longer_than_what_has_run_and_keep_to_the_limit() -> None:
    known = times(*[(50.0, 100.0, 400.0)] * 3)
    elapsed, limit = np.array([0.0, 150.0, 5_000.0]), np.array([np.nan, 200.0, 9_000.0])
    rng = np.random.default_rng(0)
    drawn = np.array([known.at(rng.uniform(size=3), elapsed, limit) for _ in range(4_000)])
    low, mid, high = np.percentile(drawn[:, 0], (5, 50, 95))
    assert (low, mid, high) == pytest.approx((50.0, 100.0, 400.0), rel=0.1)
    assert drawn[:, 1].min() > 150.0
    assert drawn[:, 1].max() == 200.0
    assert drawn[:, 2].min() >= 5_001.0  # longer than anybody thought: any moment now


@pytest.mark.parametrize("backfill", list(Backfill))
@pytest.mark.parametrize("pooled", [True, False])
def test_a_waiting_job_starts_when_its_room_is_left(backfill: Backfill, pooled: bool) -> None:
    # Two run on nodes of four cores: 60 s of 100 are over, and 10 of 30; the third wants a node.
    now = queue(2, (60, 200, 4), (10, 200, 4), (0, 50, 4), (0, 50, 4))
    cluster = Cluster((NodeKind("n", 2, 4),), (Partition("all", ("n",)),), pooled=pooled)
    exact = times((100, 100, 100), (30, 30, 30), (20, 20, 20), (20, 20, 20))
    foreseen = foresee(now, cluster, Settings(backfill, compiled=False, backfill_s=0.0), exact,
                    samples=3)  # fmt: skip
    assert foreseen.mid_s.tolist() == pytest.approx([NOW_S + 20, NOW_S + 40], abs=0.1)
    assert foreseen.mid_s.tolist() == pytest.approx(foreseen.high_s.tolist(), abs=0.1)
    assert np.all(foreseen.low_s <= foreseen.mid_s)
    for one in foreseen.replays:
        assert problems(one) == []
        assert one.start_s[:2].tolist() == [NOW_S, NOW_S]
        if not pooled:
            assert [units.tolist() for units in one.units[:2]] == [[0], [1]]
            assert one.units[2].tolist() == [1]


def test_what_is_not_certain_has_a_width() -> None:
    now = queue(1, (0, 1_000, 4), (0, 50, 4))
    wide = times((50, 100, 200), (20, 20, 20))
    foreseen = foresee(now, one_pool(4), Settings(compiled=False), wide, samples=40)
    low, mid, high = (float(column[0] - NOW_S) for column in (
        foreseen.low_s, foreseen.mid_s, foreseen.high_s))  # fmt: skip
    assert 0 <= low < 75 < mid < 140 < high < 400


class Elsewhere:
    """Sends every waiting job to the other partition."""

    asked: tuple[int, ...] = ()

    def place(self, job: int, present: Present) -> list[Option]:
        self.asked = (*self.asked, job)
        return [Option(1, 1, 4, 0, 0, 20.0, 50.0, 50.0)]


@pytest.mark.parametrize("pooled", [True, False])
def test_another_policy_places_the_waiting_and_leaves_the_running_alone(pooled: bool) -> None:
    now = queue(1, (0, 200, 4), (0, 50, 4), (0, 50, 4))
    kinds = (NodeKind("a", 1, 4), NodeKind("b", 1, 4))
    parts = (Partition("all", ("a",)), Partition("other", ("b",)))
    there = Elsewhere()
    foreseen = foresee(
        now, Cluster(kinds, parts, pooled=pooled), Settings(compiled=False),
        times((100, 100, 100), (20, 20, 20), (20, 20, 20)), samples=1,
        placing=lambda _trace: there,
    )  # fmt: skip
    assert (foreseen.mid_s - NOW_S).tolist() == [0.0, 20.0]
    assert set(there.asked) == {1, 2}
    assert foreseen.replays[0].counts.moved == 2


def test_nobody_waits() -> None:
    foreseen = foresee(queue(1, (5, 60, 4)), one_pool(4), Settings(compiled=False),
                    times((50, 50, 50)), samples=2)  # fmt: skip
    assert foreseen.mid_s.tolist() == []
