"""Rows hide what is to be predicted; splits never mix what they hold out with what they learn."""

from __future__ import annotations

import numpy as np
import pytest
from toy_rows import toy

from lab.relative.evaluation import RANDOM_ROWS
from lab.relative.families import BASELINES
from lab.relative.family import (
    LEAVE_ONE_APPLICATION_OUT,
    held_out,
)
from lab.relative.figures import pairs_right, vector_figures


def test_knowing_hides_all_times_but_the_reference_and_the_probes() -> None:
    rows = toy().knowing(["slice"])
    assert np.isfinite(rows.log_seconds).all(axis=0).tolist() == [True, False, True]


def test_applications_weigh_the_same_whatever_their_rows() -> None:
    rows = toy().take([0, 1, 2, 3])
    assert rows.weights().tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2])


def test_the_reference_cannot_be_dropped() -> None:
    with pytest.raises(ValueError, match="cpu must stay"):
        toy().with_platforms(["gpu"])


@pytest.mark.parametrize("split", [LEAVE_ONE_APPLICATION_OUT, RANDOM_ROWS])
def test_no_row_is_learnt_and_predicted_in_one_fold(split) -> None:
    rows = toy()
    held_rows = []
    for train, held in split.folds(rows, 1):
        assert not set(train) & set(held)
        held_rows += held
    assert sorted(held_rows) == list(range(len(rows)))


def test_leaving_an_application_out_leaves_all_of_it_out() -> None:
    rows = toy()
    for train, held in LEAVE_ONE_APPLICATION_OUT.folds(rows, 0):
        assert not {rows.applications[i] for i in train} & {rows.applications[i] for i in held}


@pytest.mark.parametrize("family", BASELINES, ids=lambda family: family.name)
def test_baselines_learn_a_constant_ratio(family) -> None:
    rows = toy()
    guess = held_out(rows, family, LEAVE_ONE_APPLICATION_OUT, seed=0)
    found = vector_figures(rows, guess)
    assert found.regret == pytest.approx(1.0, abs=0.02)
    assert found.median_time_error < 0.1


def test_pairs_within_five_percent_do_not_count() -> None:
    measured = np.log(np.array([[1.0, 1.04, 2.0]]))
    assert pairs_right(measured, np.log(np.array([[1.04, 1.0, 2.0]]))) == 1.0
