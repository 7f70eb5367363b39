"""Pictures in the report of the kernels' evaluation."""

from __future__ import annotations

import pytest
from toy_profiles import examples

from berth.predictor.hardware import platforms
from lab.kernels.explained_kernels import LIST, MOST, draw_kernels


def test_some_kernels_are_drawn_and_said_in_words(predictor, tmp_path) -> None:
    pytest.importorskip("matplotlib")
    found = draw_kernels(examples(), platforms.load(), predictor, tmp_path)
    assert 2 <= len(found) <= MOST
    assert all(path.read_text(encoding="utf-8").lstrip().startswith("<?xml") for path in found)
    text = (tmp_path / LIST).read_text(encoding="utf-8")
    assert text.count("-bound there") >= len(found)
    assert predictor.bundle_id in text
