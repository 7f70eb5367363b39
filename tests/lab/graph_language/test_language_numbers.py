"""Times as text: what is written is read back, anything else is a failure."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.published.graph_language.texts import read, write


@given(st.floats(min_value=2e-6, max_value=9e3))
def test_a_time_comes_back_within_an_eighth_of_a_percent(seconds: float) -> None:
    assert read(write(seconds)) == pytest.approx(seconds, rel=1.2e-3)


def test_the_documented_example_with_blanks_between_its_tokens() -> None:
    assert write(20.31e-6) == "4308"
    assert read(" 4 3 0 8\n") == pytest.approx(20.31e-6, rel=1.2e-3)


@pytest.mark.parametrize(
    "text", ["", "fast", "430", "430812", "4308 ...", "43o8", "4.308", "-4308"]
)
def test_anything_else_is_no_number(text: str) -> None:
    assert math.isnan(read(text))


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e-7, math.inf, math.nan])
def test_what_is_no_time_is_not_written(seconds: float) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        write(seconds)
