"""VAE + DNN's evaluation: kernels are never in two folds, missing counters are left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from toy_rows import toy

pytest.importorskip("torch", reason="needs the extra `deep`")

from lab.published.vae.vae_dnn import TEN_FOLDS, without_missing


def test_each_kernel_is_held_out_once_and_never_learnt_beside() -> None:
    rows = toy(applications=12)
    held_rows: list[int] = []
    for train, held in TEN_FOLDS.folds(rows, 0):
        assert not {rows.applications[i] for i in train} & {rows.applications[i] for i in held}
        held_rows += held
    assert sorted(held_rows) == list(range(len(rows)))


def test_a_counter_that_some_rows_lack_is_left_out() -> None:
    rows = toy()
    values = rows.values.copy()
    values[3, 0] = np.nan
    found = without_missing(replace(rows, values=values))
    assert found.counters == ("bytes",)
    assert np.array_equal(found.values, rows.values[:, 1:])
