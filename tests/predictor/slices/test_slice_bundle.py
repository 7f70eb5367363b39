"""The slice predictor's bundle is whole or it is refused, with a sentence that names the file."""

from __future__ import annotations

import pytest

from berth.plugin import cli
from berth.predictor.families.slices import bundle as bundles
from berth.predictor.families.slices.bundle import DEFAULT_SLICES_BUNDLE


def test_the_shipped_bundle_is_whole_and_says_how_good_it_is() -> None:
    manifest = bundles.verify()
    assert {m.name for m in manifest.methods} == {
        "sweep", "batches", "use", "gpu-use", "typical",
    }  # fmt: skip
    assert manifest.figures["ParvaGPU: sweep: median error"] <= 0.05
    assert manifest.figures["ParvaGPU: sweep: mean error"] <= 0.10
    assert manifest.figures["MISO: use: mean error"] <= 0.09
    card = (DEFAULT_SLICES_BUNDLE / "CARD.md").read_text(encoding="utf-8")
    assert "not guaranteed" in card


def test_berth_bundle_knows_this_kind(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["train", "bundle", "verify", str(DEFAULT_SLICES_BUNDLE)])
    cli.main(["train", "bundle", "show", str(DEFAULT_SLICES_BUNDLE)])
    shown = capsys.readouterr().out
    assert "whole" in shown
    assert "slow-downs on MIG slices" in shown
