"""What one more run would be worth: exact, against draws and known cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.predictor.core.value_of_run import expected_least

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
