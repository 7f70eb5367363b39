"""The look-ahead of a queue against hand-worked cases, and against the replay engine itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples

from berth.policies.replay import Backfill, Settings, one_pool, replay, trace_of
from berth.policies.replay.seen import MOST_UNITS, Lookahead


def test_jobs_start_in_order_as_soon_as_there_is_room() -> None:
    queue = Lookahead(2)
    assert queue.placed(1, 100.0, 0.0) == 0.0
    assert queue.waits(0.0).at(1, 5.0).mid == 0.0
    assert queue.placed(2, 50.0, 0.0) == 100.0
    assert queue.waits(10.0).at(1, 5.0).mid == 140.0  # nobody overtakes the wide one
    assert queue.placed(1, 10.0, 20.0) == 150.0
    queue.empty_queue(1, 60.0)  # all ended much sooner than predicted
    assert queue.waits(60.0).at(1, 5.0).mid == 0.0
    assert queue.waits(60.0).at(2, 5.0).mid > 0.0


def test_jobs_that_run_on_hold_their_place() -> None:
    queue = Lookahead(4)
    queue.placed(4, 10.0, 0.0)
    queue.empty_queue(1, 100.0)
    assert queue.waits(90.0).at(4, 1.0).mid == pytest.approx(10.0)


def test_large_queues_are_followed_in_groups() -> None:
    queue = Lookahead(10 * MOST_UNITS)
    assert queue.placed(10 * MOST_UNITS, 100.0, 0.0) == 0.0
    assert queue.waits(0.0).at(1, 1.0).mid == 100.0
    assert queue.waits(0.0).at(100 * MOST_UNITS, 1.0).mid == 100.0


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(1, 100), st.integers(1, 8)), min_size=1,
             max_size=30)
)  # fmt: skip
@settings(max_examples=examples(60), deadline=None)
def test_with_true_times_it_is_first_come_first_served(
    jobs: list[tuple[float, float, int]],
) -> None:
    submit = np.cumsum([gap for gap, _, _ in jobs])
    run, cores = np.array([r for _, r, _ in jobs]), np.array([c for _, _, c in jobs])
    queue = Lookahead(8)
    starts = [queue.placed(int(c), r, t) for t, r, c in zip(submit, run, cores, strict=True)]
    fcfs = Settings(backfill=Backfill.FCFS, compiled=False, kill_at_limit=False)
    done = replay(trace_of(submit, run, cores), one_pool(8), fcfs)
    assert starts == pytest.approx(done.start_s.tolist())
