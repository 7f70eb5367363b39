"""Units: read what people write, show what people read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import UsageError
from berth.pilot.units import (
    format_bytes,
    format_count,
    format_seconds,
    parse_bytes,
    parse_duration_s,
    whole_number,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [("4096", 4096), ("16G", 16 * 2**30), ("1.5 GiB", 3 * 2**29), ("512m", 2**29), ("1TB", 2**40)],
)
def test_memory_sizes_as_people_write_them(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    "text", ["", "G", "-1G", "1X", "1e9", "nan", "1 G B", f"{'9' * 400}G", "٣G"]
)
def test_other_text_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_bytes(text)
    assert "16G" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("1.5h", 5400),
        ("12:00:00", 43_200),
        ("2-12:00", 216_000),
        ("2-00:00:00", 172_800),
    ],
)
def test_durations_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "9", f"{'9' * 400}s", f"{'9' * 400}-00:00", "9" * 5000 + ":00:00"]
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="90s"):
        parse_duration_s(text)


def test_two_clock_numbers_are_refused_with_both_that_may_be_meant() -> None:
    with pytest.raises(ValueError, match="write 90s or 90m"):
        parse_duration_s("1:30")


@given(st.integers(min_value=0, max_value=2**60))
def test_shown_bytes_read_back_within_their_rounding(count: int) -> None:
    assert parse_bytes(format_bytes(count)) == pytest.approx(count, rel=0.051, abs=1)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.5e-5, "15 us"), (0.0123, "12.3 ms"), (4.56, "4.56 s"), (150, "2m 30s"), (9000, "2h 30m")],
)
def test_durations_have_three_digits_and_a_unit(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_rates_have_a_prefix() -> None:
    assert format_count(1.234e9) == "1.23 G"
    assert format_count(12) == "12"


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("42", 42), ("007", 7), ("99", 99), ("100", None), ("", None), ("-1", None),
     ("+1", None), (" 1", None), ("1_0", None), ("1.0", None), ("²", None), ("٣", None),
     ("9" * 5_000, None)],
)  # fmt: skip
def test_a_whole_number_is_a_few_digits_or_none(text: str, number: int | None) -> None:
    assert whole_number(text, 99) == number
