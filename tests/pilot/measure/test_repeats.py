"""The number of repeats of a native run, and the median and spread of their times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.native import repeats_for, runtime_of


@pytest.mark.parametrize(
    ("first_s", "wanted", "repeats"),
    [(0.1, None, 1), (1, None, 2), (30, None, 1), (0.1, 3, 3), (100, 3, 3)],
)
def test_brief_and_long_programs_are_run_once_unless_more_is_asked_for(
    first_s: float, wanted: int | None, repeats: int
) -> None:
    assert repeats_for(first_s, wanted) == repeats


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20))
def test_the_median_lies_within_the_repeats_and_the_spread_within_their_range(
    times: list[float],
) -> None:
    runtime = runtime_of(times)
    assert min(times) <= runtime.median_s <= max(times)
    assert 0 <= runtime.spread_s <= (max(times) - min(times)) * 1.000001


def test_a_time_below_the_clocks_step_is_still_a_time() -> None:
    assert runtime_of([0.0, 0.0]).median_s > 0
