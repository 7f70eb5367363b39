"""Errors of a held-out application are learnt from models that never saw it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from toy_rows import toy

from lab.ground.resume import Resume
from lab.relative.families import Regression
from lab.relative.nested import nested

RIDGE = Regression("ridge", "ridge", lambda _seed: Ridge(1.0))


def test_inner_predictions_never_saw_the_held_application() -> None:
    data, changed = toy(applications=6), toy(applications=6)
    names = np.array(data.applications)
    changed.log_seconds[names == "app3", 1:] += 5.0
    before, after = (
        next(f for f in nested(rows, RIDGE, seed=0) if f.application == "app3")
        for rows in (data, changed)
    )
    assert after.log_inner == pytest.approx(before.log_inner)
    assert after.log_predicted == pytest.approx(before.log_predicted)


def test_a_pair_of_applications_is_fitted_once(tmp_path) -> None:
    calls: list[int] = []
    nested(
        toy(applications=5), RIDGE, seed=0, resume=Resume(tmp_path),
        advance=lambda: calls.append(1),
    )  # fmt: skip
    assert len(calls) == len(list(tmp_path.glob("*.npy"))) == 15
