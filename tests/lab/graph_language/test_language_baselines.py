"""The cheap baselines learn from the base and from the rows that were given, and from no others."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra `language`")
pytest.importorskip("onnx")
pytest.importorskip("xgboost")

import tiny_latency

from lab.published.graph_language.corpus import Group, divide
from lab.published.graph_language.evaluate_language import PROCESS, few_shot, trees

GROUPS = [Group("device", "5090"), Group("family", "vit")]


def dealt():
    table = tiny_latency.runs(batches=(1, 4, 16))
    return table, divide(table, GROUPS, samples=4, base=100, test=100, seed=0)


def predicted(table, division, place):
    one = division.adaptations[place]
    process = few_shot(table, tiny_latency.graphs(), division.base, one, seed=0)[PROCESS]
    return process, trees(table, division.base, one, seed=0)


@pytest.mark.parametrize("place", [0, 1])
def test_one_time_above_0_for_each_tested_row(place) -> None:
    table, division = dealt()
    for seconds in predicted(table, division, place):
        assert seconds.shape == division.adaptations[place].test.shape
        assert (seconds > 0).all()
        assert np.isfinite(seconds).all()


@pytest.mark.parametrize("place", [0, 1])
def test_given_rows_count_and_tested_times_do_not(place) -> None:
    table, division = dealt()
    one = division.adaptations[place]
    before = predicted(table, division, place)
    hidden = table.seconds.copy()
    hidden[one.test] = 1.0
    for a, b in zip(
        before,
        predicted(dataclasses.replace(table, seconds=hidden), division, place),
        strict=True,
    ):
        assert a.tolist() == b.tolist()
    slower = table.seconds.copy()
    slower[one.given] *= 4
    after = predicted(dataclasses.replace(table, seconds=slower), division, place)
    assert np.median(after[0] / before[0]) > 1
    assert np.median(after[1] / before[1]) > 1
