"""Carbon intensities: means over a run by hand, and by brute force over minutes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.policies.carbon import HOUR_S, Intensity

START = 24 * HOUR_S * 100


def test_a_constant_is_the_same_at_any_time() -> None:
    assert Intensity((42.0,)).mean(1e9, 1e6) == 42.0


def test_the_mean_is_over_the_hours_that_the_run_takes_part_of() -> None:
    table = Intensity((100.0, 200.0, 600.0), START)
    assert table.mean(START, 3600.0) == pytest.approx(100.0)
    assert table.mean(START + 1800.0, 3600.0) == pytest.approx(150.0)
    assert table.mean(START + 3600.0, 7200.0) == pytest.approx(400.0)
    assert table.mean(START + 10.0, 0.0) == pytest.approx(100.0)


def test_beyond_the_table_the_same_hour_of_day_counts() -> None:
    table = Intensity(tuple(float(h % 24) for h in range(48)), START)
    assert table.mean(START + 100 * 24 * 3600 + 5 * 3600, 3600.0) == pytest.approx(5.0)
    assert table.mean(START - 24 * 3600 + 7 * 3600, 3600.0) == pytest.approx(7.0)
    assert table.mean(START - 3600, 7200.0) == pytest.approx((23 + 0) / 2)


@given(
    st.lists(st.floats(0, 1000), min_size=2, max_size=60),
    st.integers(-200, 200),
    st.integers(1, 600),
)
def test_it_is_the_mean_of_every_minute(hours: list[float], begin: int, minutes: int) -> None:
    table = Intensity(tuple(hours), START)
    start_s = START + begin * 600
    by_minute = [table.mean(start_s + 60 * i, 60.0) for i in range(minutes)]
    assert table.mean(start_s, 60.0 * minutes) == pytest.approx(sum(by_minute) / minutes, abs=1e-6)


@pytest.mark.parametrize(
    ("hourly", "start_s"), [((), 0), ((-1.0,), 0), ((float("nan"),), 0), ((1.0, 2.0), 5)]
)
def test_what_is_no_intensity_is_refused(hourly: tuple[float, ...], start_s: int) -> None:
    with pytest.raises(ValueError, match=r"at least 0|full hours"):
        Intensity(hourly, start_s)


def test_it_shows_short_and_different_for_other_hours() -> None:
    one, other = Intensity((1.0, 2.0), START), Intensity((1.0, 3.0), START)
    assert repr(one) != repr(other)
    assert len(repr(Intensity(tuple(map(float, range(10_000))), START))) < 40
