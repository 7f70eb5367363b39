"""The shipped process learns from the base and the rows that were given, from no others."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra `language`")
pytest.importorskip("onnx")

import tiny_latency

from lab.published.graph_language.corpus import divide
from lab.published.graph_language.evaluate_language import by_process
from lab.published.graph_language.language_config import LanguageConfig

ADAPT = ({"device": "5090"}, {"family": "vit"})


def divided(place: int):
    table = tiny_latency.runs(batches=(1, 4, 16))
    config = LanguageConfig.model_validate(
        {"language_model": {"path": "x"}, "adapt": ADAPT, "samples": 4, "rows": 100}
    )
    division = divide(table, config)
    return table, division.base, division.adaptations[place]


def predicted(table, base, fold, place):
    known = tiny_latency.graphs()
    return by_process(table, known, base, fold, is_device=place == 0, seed=0)


@pytest.mark.parametrize("place", [0, 1])
def test_given_rows_count_and_tested_times_do_not(place) -> None:
    table, base, fold = divided(place)
    before = predicted(table, base, fold, place)
    assert before.shape == fold.test.shape
    assert (before > 0).all()
    assert np.isfinite(before).all()
    hidden = table.seconds.copy()
    hidden[fold.test] = 1.0
    again = predicted(dataclasses.replace(table, seconds=hidden), base, fold, place)
    assert again.tolist() == before.tolist()
    slower = table.seconds.copy()
    slower[fold.train] *= 4
    after = predicted(dataclasses.replace(table, seconds=slower), base, fold, place)
    assert np.median(after / before) > 1
