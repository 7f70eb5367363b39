"""The default family's curve of error against labels, on made-up programs."""

from __future__ import annotations

import pytest
from toy_profiles import examples

from berth.predictor.hardware import platforms
from lab.kernels import few_shot


def test_both_labelled_platforms_are_new_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_shot, "DRAWS", 2)
    monkeypatch.setattr(few_shot, "LABELS", (0, 4))
    calls: list[int] = []
    found = few_shot.evaluate_adapted(
        examples(kernels=20), platforms.load(), seed=0, advance=lambda: calls.append(1)
    )
    assert [(c.platform, c.prior_of) for c in found] == [
        ("quartz", "lassen-v100"),
        ("lassen-v100", "quartz"),
    ]
    assert len(calls) == few_shot.steps() == 4
    for curve in found:
        assert all(0 <= share <= 1 for share in curve.coverage)
        assert curve.error[1] < curve.error[0] + 0.05
