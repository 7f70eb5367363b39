"""The ROC of the usual order: sure and right is 1, guessing is one half, one order has none."""

from __future__ import annotations

import numpy as np
import pytest

from lab.relative.orders import usual_order, usual_order_roc


def times(count: int = 200) -> np.ndarray:
    random = np.random.default_rng(0)
    usual = np.array([0.0, 1.0, 2.0])
    other = np.array([2.0, 0.0, 1.0])
    return np.where(random.random((count, 1)) < 0.8, usual, other)


def test_the_usual_order_is_the_most_frequent_one() -> None:
    assert usual_order(times()) == (0, 1, 2)


def test_the_truth_as_a_prediction_has_the_whole_area() -> None:
    assert usual_order_roc(times(), times()) == 1


def test_chance_has_half_of_it() -> None:
    noise = np.random.default_rng(1).normal(size=(4000, 3))
    assert usual_order_roc(times(4000), noise) == pytest.approx(0.5, abs=0.04)


def test_one_order_only_has_no_curve() -> None:
    assert usual_order_roc(np.tile([1.0, 2.0], (5, 1)), np.zeros((5, 2))) is None
