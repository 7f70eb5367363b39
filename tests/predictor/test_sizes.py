"""The growth of size: recovers what made it, and its upper bound is never below what was seen."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import UsageError
from berth.predictor.core.prediction import Interval
from berth.predictor.core.sizes import (
    MEASURED_MARGIN,
    SINGLE_SIZE_MARGIN,
    SizeGrowth,
    growth_to,
)

POSITIVE = st.floats(min_value=1e-3, max_value=1e12)


def test_a_power_growth_with_a_constant_is_recovered() -> None:
    points = [(n, 0.5 + 2e-6 * n**1.5, 1e7 + 24 * n) for n in (1e4, 1e5, 1e6)]
    growth = SizeGrowth.fit(points, size=1e5)
    factor = growth.runtime_factor(1e6)
    assert factor.mid == pytest.approx(points[2][1] / points[1][1], rel=0.05)
    memory = growth.memory_bytes(1e6)
    assert memory is not None
    assert memory.mid == pytest.approx(points[2][2], rel=0.05)


def test_the_profiled_size_is_exact() -> None:
    growth = SizeGrowth.fit([(10, 1.0, 100.0), (20, 2.0, 200.0)], size=10, peak_memory_bytes=100.0)
    assert growth.runtime_factor(10).mid == 1.0
    assert growth.runtime_factor(None).high == 1.0
    memory = growth.memory_bytes()
    assert memory is not None
    assert memory.high == pytest.approx(100 * MEASURED_MARGIN)


def test_the_interval_widens_away_from_the_measured_sizes() -> None:
    growth = SizeGrowth.fit([(10, 1.0, 100.0), (20, 2.0, 200.0)], size=10)
    near, far = growth.runtime_factor(40), growth.runtime_factor(4000)
    assert far.high / far.mid > near.high / near.mid > 1.0


def test_one_size_says_little_about_another() -> None:
    growth = SizeGrowth.fit([(10, 1.0, 100.0)])
    same, other = growth.memory_bytes(), growth.memory_bytes(20)
    assert same is not None
    assert other is not None
    assert same.high == pytest.approx(100 * SINGLE_SIZE_MARGIN)
    assert other.high >= 100 * 8
    assert other.low <= 100


def test_no_size_at_all_keeps_the_measured_peak() -> None:
    growth = SizeGrowth.fit([], peak_memory_bytes=5e8)
    memory = growth.memory_bytes(123.0)
    assert memory is not None
    assert memory.mid == 5e8
    assert SizeGrowth.fit([]).memory_bytes() is None


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_sizes_that_are_none_are_refused(bad: float) -> None:
    with pytest.raises(UsageError):
        SizeGrowth.fit([(bad, 1.0, 1.0)])
    with pytest.raises(UsageError, match="problem size"):
        SizeGrowth.fit([(1.0, 1.0, 1.0), (2.0, 2.0, 2.0)]).runtime_factor(bad)


@given(
    st.lists(st.tuples(POSITIVE, POSITIVE, POSITIVE), min_size=1, max_size=5,
             unique_by=lambda p: round(math.log(p[0]), 3)),
    st.floats(min_value=1e-3, max_value=1e9),
)  # fmt: skip
def test_every_interval_is_ordered_and_finite(
    points: list[tuple[float, float, float]], size: float
) -> None:
    growth = SizeGrowth.fit(points)
    assert growth.runtime_factor(size).mid >= 0
    memory = growth.memory_bytes(size)
    assert memory is None or memory.low <= memory.mid <= memory.high < math.inf


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=2, max_size=4,
                unique_by=lambda p: round(math.log(p[0]), 2)))  # fmt: skip
def test_the_upper_memory_at_a_measured_size_covers_what_was_measured(
    points: list[tuple[float, float]],
) -> None:
    growth = SizeGrowth.fit([(size, 1.0, memory) for size, memory in points])
    for size, measured in points:
        memory = growth.memory_bytes(size)
        assert memory is not None
        assert memory.high >= measured * 0.999


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("constant", [0.0, 1e6, 1.2e7])
def test_extrapolated_memory_covers_a_program_that_has_hardly_left_its_constant(
    exponent: float, constant: float
) -> None:
    def truth(size: float) -> float:
        return constant + 24 * size**exponent

    growth = SizeGrowth.fit([(n, 1.0, truth(n)) for n in (200.0, 400.0)], size=200.0)
    for size in (500.0, 1000.0, 2000.0, 4000.0):
        memory = growth.memory_bytes(size)
        assert memory is not None
        assert memory.low <= truth(size) <= memory.high


def test_three_sizes_that_show_the_exponent_give_a_narrower_bound() -> None:
    def growth(*sizes: float) -> SizeGrowth:
        return SizeGrowth.fit([(n, 1.0, 1e7 + 80 * n**2) for n in sizes], size=sizes[0])

    few, more = (growth(*sizes).memory_bytes(8000.0) for sizes in ((800, 1600), (400, 800, 1600)))
    assert few is not None
    assert more is not None
    assert more.high < few.high


def test_beyond_ten_times_the_largest_size_memory_is_unknown() -> None:
    growth = SizeGrowth.fit([(n, 1.0, 24.0 * n) for n in (100.0, 200.0)], size=100.0)
    near, far = growth.memory_bytes(1999.0), growth.memory_bytes(2001.0)
    assert near is not None
    assert far is None


def test_a_peak_that_is_a_bound_says_nothing_of_larger_sizes() -> None:
    points = [(200.0, 1.0, 13e6), (400.0, 2.0, 13.1e6)]
    growth = SizeGrowth.fit(points, size=200.0, bounds={200.0, 400.0})
    same, larger = growth.memory_bytes(), growth.memory_bytes(2000.0)
    assert same is not None
    assert same.low == 0
    assert same.high >= 13e6
    assert larger is None


@pytest.mark.parametrize("bounds", [{100.0}, {100.0, 200.0}, {100.0, 200.0, 400.0}])
def test_a_measured_size_is_known_where_the_main_runs_peak_is_a_bound(bounds: set[float]) -> None:
    points = [(100.0, 1.0, 13e6), (200.0, 2.0, 13.4e6), (400.0, 4.0, 15e6)]
    growth = SizeGrowth.fit(points, size=100.0, bounds=bounds)
    for size, _, peak in points:
        memory = growth.memory_bytes(size)
        assert memory is not None
        assert memory.low == 0
        assert peak <= memory.high < 1.25 * peak
        assert growth.doubt(size) is None
    assert growth.memory_bytes(401.0) is None
    assert "too small to tell" in (growth.doubt(401.0) or "")


def test_a_doubt_of_a_size_is_said_in_words() -> None:
    none = SizeGrowth.fit([], peak_memory_bytes=1e9)
    assert "names no problem size" in (none.doubt(50.0) or "")
    growth = SizeGrowth.fit([(n, 1.0, 24.0 * n) for n in (100.0, 200.0)], size=100.0)
    assert growth.doubt(1999.0) is None
    assert "over 10 times the largest measured size, 200" in (growth.doubt(2001.0) or "")
    points = [(200.0, 1.0, 13e6), (400.0, 2.0, 13.1e6)]
    small = SizeGrowth.fit(points, size=200.0, bounds={200.0, 400.0})
    assert "too small to tell" in (small.doubt(2000.0) or "")
    assert [one.doubt(None) for one in (none, growth, small)] == [None] * 3


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6, 1e7])
def test_another_size_keeps_the_time_of_starting_kernels(size: float) -> None:
    points = [(n, 1e-8 * n, 1e6) for n in (1e5, 1e6)]
    growth = growth_to(SizeGrowth.fit(points, size=1e6), size)
    there = growth.runtime(Interval(9e-6, 10e-6, 12e-6), launch_s=4e-6)
    assert there.mid == pytest.approx(4e-6 + 6e-6 * size / 1e6)
    assert there.low <= 9e-6 * growth.time.low
    assert there.high >= 12e-6 * growth.time.high


def test_the_profiled_size_keeps_a_time_below_the_estimated_launches() -> None:
    growth = growth_to(SizeGrowth.fit([(10, 1.0, 100.0), (20, 2.0, 200.0)], size=10), 10)
    assert growth.runtime(Interval(1.0, 1.0, 1.0), launch_s=2.0) == Interval(1.0, 1.0, 1.0)
