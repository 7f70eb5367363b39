"""Changes of users between two replays: an interval only where the user has jobs in two weeks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from berth.plugin.pictures.tuning import UserMeans, most_changed
from berth.policies.replay import Backfill, Settings, one_pool, replay, trace_of
from berth.policies.replay.users import changes_by_user

WEEK_S = 7 * 86_400.0


def test_a_user_with_jobs_in_one_week_has_no_interval() -> None:
    submit_s = np.array([0.0, 1.0, 2.0, WEEK_S, WEEK_S + 1.0, WEEK_S + 2.0])
    trace = replace(
        trace_of(submit_s, np.full(6, 100.0), np.array([4, 2, 2, 4, 2, 2]), queues=("all",)),
        user=np.array([0, 0, 1, 0, 0, 2]), users=("often", "once", "later"),
    )  # fmt: skip
    wide, narrow = (
        replay(trace, one_pool(cores), Settings(Backfill.FCFS, compiled=False)) for cores in (8, 4)
    )
    by_name = {change.user: change for change in changes_by_user([wide], [narrow])}
    assert by_name["often"].change is not None
    assert (by_name["once"].change, by_name["later"].change) == (None, None)
    assert by_name["once"].loses


def test_single_jobs_do_not_hide_the_others_in_the_picture() -> None:
    single = UserMeans("single", 1, 10.0, 1_000.0)
    others = [UserMeans(f"u{n}", 40, 100.0, 100.0 + n) for n in range(3)]
    assert single not in most_changed([single, *others])
    assert most_changed([single]) == [single]
