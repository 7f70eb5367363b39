"""What one more run would be worth: exact, against draws and known cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.predictor.core.value_of_run import (
    REGRET_SHARE,
    Place,
    expected_least,
    value_of_run,
)

numbers = st.floats(-3.0, 3.0)
lines = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12)


@given(lines)
def test_the_expected_least_is_that_of_a_fine_grid(found: list[tuple[float, float]]) -> None:
    means, moved = np.array(found).T
    z = np.linspace(-8.0, 8.0, 4_001)
    least = (means[:, None] + moved[:, None] * z).min(axis=0)
    weight = np.exp(-0.5 * z**2)
    exact = expected_least(means.tolist(), moved.tolist())
    assert exact == pytest.approx(float(least @ weight / weight.sum()), abs=1e-4)
    assert exact <= means.min() + 1e-9


def test_of_two_equal_places_one_unknown_half_a_density_is_gained() -> None:
    assert expected_least([0.0, 0.0], [0.0, 1.0]) == pytest.approx(-1 / math.sqrt(2 * math.pi))


def test_what_is_known_is_worth_no_run() -> None:
    places = [Place("a", False, 0.0, 0.0), Place("b", True, 0.1, 0.0)]
    assert value_of_run(places, 0) == value_of_run(places, 1) == 0.0


def test_a_place_that_is_far_slower_is_worth_no_run() -> None:
    near = value_of_run([Place("a", False, 0.0, 0.01), Place("b", True, 0.1, 0.5)], 1)
    far = value_of_run([Place("a", False, 0.0, 0.01), Place("b", True, 3.0, 0.5)], 1)
    assert near > 10 * far
    assert near < REGRET_SHARE * 0.5


def test_two_places_of_one_platform_are_learnt_together_and_gain_nothing() -> None:
    places = [Place("a", True, 0.0, 0.5), Place("a", True, 0.1, 0.5)]
    assert value_of_run(places, 0) == pytest.approx(0.0, abs=1e-9)
