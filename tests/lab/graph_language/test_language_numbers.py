"""Times as text: what is written is read back, anything else is a failure."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.published.graph_language.texts import Notation, read, write

TIMES_S = st.floats(min_value=2e-6, max_value=9e3)


@given(TIMES_S)
def test_scientific_comes_back_within_a_twentieth_of_a_percent(seconds: float) -> None:
    assert read(write(seconds, Notation.SCIENTIFIC), Notation.SCIENTIFIC) == pytest.approx(
        seconds, rel=5.01e-4
    )


@given(TIMES_S)
def test_logarithm_comes_back_within_an_eighth_of_a_percent(seconds: float) -> None:
    assert read(write(seconds, Notation.LOGARITHM), Notation.LOGARITHM) == pytest.approx(
        seconds, rel=1.2e-3
    )


def test_the_documented_examples() -> None:
    assert write(20.31e-6, Notation.SCIENTIFIC) == "2.031e1"
    assert write(20.31e-6, Notation.LOGARITHM) == "4308"


@pytest.mark.parametrize("text", ["2.031e1", "2 . 0 3 1 e 1", " 2.031 e1\n"])
def test_blanks_between_tokens_do_not_count(text: str) -> None:
    assert read(text, Notation.SCIENTIFIC) == pytest.approx(20.31e-6)


@pytest.mark.parametrize(
    "text",
    ["", "fast", "2.03e1", "2.031e1 ...", "2.031e1<unk>", "-2.031e1", "0.000e0", "2.031", "nan"],
)
def test_anything_else_is_no_number(text: str) -> None:
    assert read(text, Notation.SCIENTIFIC) is None


@pytest.mark.parametrize("text", ["", "430", "430812", "4308 ...", "43o8", "4.308"])
def test_anything_else_is_no_logarithm(text: str) -> None:
    assert read(text, Notation.LOGARITHM) is None


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("notation", list(Notation))
def test_what_is_no_time_is_not_written(seconds: float, notation: Notation) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        write(seconds, notation)
