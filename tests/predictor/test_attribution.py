"""Shapley attribution: additive, exact on games with a known answer, the same every time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.predictor.core.arrays import Floats
from berth.predictor.families.program.attribution import MOST_EXACT, attribute


def curved(rows: Floats) -> Floats:
    """Two outputs with interactions."""
    first = np.sin(rows).sum(axis=1) + rows[:, 0] * rows[:, -1]
    return np.stack([first, np.max(rows, axis=1)], axis=1)


def singles(count: int) -> list[list[int]]:
    return [[i] for i in range(count)]


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=6), st.integers(0, 5))
def test_base_and_effects_add_up_to_the_prediction(values: list[float], seed: int) -> None:
    row = np.array(values)
    background = np.random.default_rng(seed).normal(size=(3, row.size))
    found = attribute(curved, row, background, singles(row.size))
    assert found.base + found.effects.sum(axis=0) == pytest.approx(found.value, abs=1e-9)
    assert found.value == pytest.approx(curved(row[None])[0])
    assert found.base == pytest.approx(curved(background).mean(axis=0))


@pytest.mark.parametrize("count", [4, MOST_EXACT + 3])
def test_a_sum_gives_each_input_its_own_term(count: int) -> None:
    weights = np.arange(1.0, count + 1)
    row, typical = np.ones(count) * 2, np.zeros(count)
    found = attribute(lambda rows: rows @ weights[:, None], row, typical, singles(count))
    assert found.effects[:, 0] == pytest.approx(2 * weights)


def test_a_product_shares_its_gain_equally() -> None:
    found = attribute(
        lambda rows: rows[:, :1] * rows[:, 1:], np.array([3.0, 3.0]), np.zeros(2), singles(2)
    )
    assert found.effects[:, 0] == pytest.approx([4.5, 4.5])


def test_many_groups_are_sampled_additively_and_the_same_every_time() -> None:
    row = np.linspace(-1, 2, MOST_EXACT + 4)
    first = attribute(curved, row, np.zeros(row.size), singles(row.size))
    second = attribute(curved, row, np.zeros(row.size), singles(row.size))
    assert np.array_equal(first.effects, second.effects)
    assert first.base + first.effects.sum(axis=0) == pytest.approx(first.value, abs=1e-9)


def test_sampled_effects_are_near_exact_ones() -> None:
    """Groups of one column and empty ones: the same game, asked in both ways."""
    row = np.array([1.0, -0.5, 2.0, 0.3])
    exact = attribute(curved, row, np.zeros(4), singles(4))
    padded = attribute(curved, row, np.zeros(4), [*singles(4), *([] for _ in range(MOST_EXACT))])
    assert padded.effects[:4] == pytest.approx(exact.effects, abs=0.25)
    assert np.all(padded.effects[4:] == 0)


def test_columns_in_no_group_keep_the_workloads_value() -> None:
    found = attribute(lambda rows: rows[:, :1] + rows[:, 1:], np.ones(2) * 5, np.zeros(2), [[0]])
    assert (found.base[0], found.value[0]) == (5.0, 10.0)


@pytest.mark.parametrize(
    ("groups", "width"), [([[0], [0]], 2), ([[5]], 2), ([[0]], 3), ([[-1]], 2)]
)
def test_groups_that_do_not_fit_are_refused(groups: list[list[int]], width: int) -> None:
    with pytest.raises(ValueError, match=r"two groups|do not fit"):
        attribute(curved, np.zeros(2), np.zeros(width), groups)
