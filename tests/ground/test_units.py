"""Units: read what people write, show what people read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import UsageError
from berth.pilot.units import format_bytes, format_count, format_seconds, parse_bytes


@pytest.mark.parametrize(
    ("text", "count"),
    [("4096", 4096), ("16G", 16 * 2**30), ("1.5 GiB", 3 * 2**29), ("512m", 2**29), ("1TB", 2**40)],
)
def test_memory_sizes_as_people_write_them(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "G", "-1G", "1X", "1e9", "nan", "1 G B"])
def test_other_text_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_bytes(text)
    assert "16G" in str(caught.value.hint)


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
