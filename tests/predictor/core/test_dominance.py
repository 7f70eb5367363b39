"""Dominance: the order holds, nothing moves that agrees, neither order nor rounding matters."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.predictor.core.combine import ordered
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Interval

NAMES = "abcdef"
PAIRS = st.sets(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(lambda p: p[0] < p[1])
)
"""Better ones come first in the alphabet: an order without circles."""
TIMES = st.dictionaries(
    st.sampled_from(NAMES),
    st.builds(around, st.floats(1e-3, 1e3), st.floats(0.02, 2.0)),
    min_size=1,
)


@given(TIMES, PAIRS)
def test_a_better_platform_is_not_slower(
    times: dict[str, Interval], pairs: set[tuple[str, str]]
) -> None:
    found = ordered(times, pairs)
    for better, worse in pairs:
        if better in found and worse in found:
            assert found[better].mid <= found[worse].mid * (1 + 1e-12)
    assert {n: one.high / one.mid for n, one in found.items()} == pytest.approx(
        {n: one.high / one.mid for n, one in times.items()}
    )


@given(TIMES, PAIRS, st.randoms())
def test_the_order_given_does_not_matter(
    times: dict[str, Interval], pairs: set[tuple[str, str]], rng: random.Random
) -> None:
    names, some = list(times), list(pairs)
    rng.shuffle(names)
    rng.shuffle(some)
    assert ordered({name: times[name] for name in names}, some) == ordered(times, pairs)


@given(TIMES, PAIRS)
def test_what_agrees_stays(times: dict[str, Interval], pairs: set[tuple[str, str]]) -> None:
    once = ordered(times, pairs)
    again = ordered(once, pairs)
    assert {n: one.mid for n, one in again.items()} == pytest.approx(
        {n: one.mid for n, one in once.items()}
    )


def test_the_surer_prediction_moves_less() -> None:
    found = ordered({"new": around(2.0, 0.5), "old": around(1.0, 0.05)}, [("new", "old")])
    assert found["new"].mid == pytest.approx(found["old"].mid)
    assert 1.0 < found["old"].mid < 1.05
