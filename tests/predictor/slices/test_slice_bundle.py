"""The slice predictor's bundle is whole or it is refused, with a sentence that names the file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from berth.pilot.errors import DocumentError
from berth.plugin import cli
from berth.predictor.core.bundle import MANIFEST
from berth.predictor.families.slices import bundle as bundles
from berth.predictor.families.slices.bundle import DEFAULT_SLICES_BUNDLE, LATENTS, RESIDUAL


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DEFAULT_SLICES_BUNDLE, tmp_path / "copy"))


def test_the_shipped_bundle_is_whole_and_says_how_good_it_is() -> None:
    manifest = bundles.verify()
    assert {m.name for m in manifest.methods} == {
        "sweep", "batches", "counters", "utilisation", "time",
    }  # fmt: skip
    assert manifest.figures["ParvaGPU: sweep: median error"] <= 0.05
    assert manifest.figures["ParvaGPU: sweep: mean error"] <= 0.10
    assert manifest.figures["MISO: counters: mean error"] <= 0.08
    card = (DEFAULT_SLICES_BUNDLE / "CARD.md").read_text(encoding="utf-8")
    assert "not guaranteed" in card


@pytest.mark.parametrize("name", [LATENTS, RESIDUAL, "CARD.md"])
def test_a_changed_file_is_named(copy: Path, name: str) -> None:
    raw = bytearray((copy / name).read_bytes())
    raw[len(raw) // 2] ^= 1
    (copy / name).write_bytes(raw)
    with pytest.raises(DocumentError, match="checksum") as raised:
        bundles.load(copy)
    assert name in raised.value.message


def test_a_manifest_changed_by_hand_no_longer_fits_its_id(copy: Path) -> None:
    data = json.loads((copy / MANIFEST).read_text())
    data["methods"][0]["width"]["q90"] = 0.001
    (copy / MANIFEST).write_text(json.dumps(data))
    with pytest.raises(DocumentError, match="its own id"):
        bundles.load(copy)


def test_a_bundle_of_another_kind_is_refused() -> None:
    with pytest.raises(DocumentError, match="schema"):
        bundles.load(DEFAULT_SLICES_BUNDLE.parent / "default")


@pytest.mark.parametrize("missing", [LATENTS, RESIDUAL, MANIFEST])
def test_a_missing_file_is_named(copy: Path, missing: str) -> None:
    (copy / missing).unlink()
    with pytest.raises(DocumentError, match=missing):
        bundles.load(copy)


def test_berth_bundle_knows_this_kind(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["train", "bundle", "verify", str(DEFAULT_SLICES_BUNDLE)])
    cli.main(["train", "bundle", "show", str(DEFAULT_SLICES_BUNDLE)])
    shown = capsys.readouterr().out
    assert "whole" in shown
    assert "slow-downs on MIG slices" in shown
