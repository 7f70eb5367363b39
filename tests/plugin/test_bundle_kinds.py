"""Every shipped bundle is shown and checked; those that tell model times are taken by predict."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from small_models import convolutional

from berth.plugin.bundle_readers import reader_of, readers_by_schema
from berth.plugin.cli import main
from berth.predictor.families.program.bundle import DEFAULT_BUNDLE

BUNDLES = DEFAULT_BUNDLE.parent
SHIPPED = sorted(path.name for path in BUNDLES.iterdir() if path.is_dir())


def run(*arguments: object) -> int:
    try:
        return main([str(one) for one in arguments]) or 0
    except SystemExit as error:
        return int(error.code or 0)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    path.write_bytes(convolutional(blocks=8, channels=16).SerializeToString())
    return path


@pytest.mark.parametrize("name", SHIPPED)
def test_each_shipped_bundle_is_shown_and_whole(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = reader_of(BUNDLES / name).verify(BUNDLES / name)
    assert run("train", "bundle", "show", BUNDLES / name) == 0
    assert manifest.id in capsys.readouterr().out
    assert run("train", "bundle", "verify", BUNDLES / name) == 0
    assert capsys.readouterr().out == f"{manifest.id}: whole\n"


@pytest.mark.parametrize("name", SHIPPED)
def test_a_changed_file_of_any_bundle_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / name
    shutil.copytree(BUNDLES / name, copy)
    named = sorted(json.loads((copy / "manifest.json").read_text())["files"])
    (copy / named[0]).write_bytes(b"changed")
    assert run("train", "bundle", "verify", copy) == 2
    shown = capsys.readouterr().err
    assert named[0] in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("[]", "names no schema"),
        ('{"schema": 3}', "names no schema"),
        ('{"schema": "of/another"}', "which no installed family reads"),
        ('{"schema": "berth.bundle/9"}', "made by a newer Berth"),
        ("\0", "is not JSON"),
    ],
)
def test_a_manifest_of_no_known_kind_is_one_sentence(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "manifest.json").write_text(text)
    for command in ("verify", "show"):
        assert run("train", "bundle", command, tmp_path) == 2
        shown = capsys.readouterr().err
        assert said in shown
        assert "Traceback" not in shown


def test_every_shipped_bundle_has_its_reader_by_registry() -> None:
    schemas = {
        json.loads((BUNDLES / name / "manifest.json").read_text())["schema"] for name in SHIPPED
    }
    assert schemas <= set(readers_by_schema())


@pytest.mark.parametrize("name", ["model-latency", "operators", "model-transfer"])
def test_a_bundle_of_model_times_takes_the_place_of_the_shipped_one(
    name: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / name
    shutil.copytree(BUNDLES / name, copy)
    asked = ["predict", model, "--batch", 1, "--json"]
    asked += ["--platform", "i9-10940x", "--platform", "h100-80gb"]
    assert run(*asked) == 0
    shipped = json.loads(capsys.readouterr().out)["predictions"]
    assert run(*asked, "--bundle", copy) == 0
    assert json.loads(capsys.readouterr().out)["predictions"] == shipped
    shutil.rmtree(copy)
    assert run(*asked, "--bundle", copy) == 2


@pytest.mark.parametrize("name", ["default", "llm", "dl-training", "mig-slices"])
def test_a_bundle_without_model_times_is_refused_in_one_sentence(
    name: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", model, "--bundle", BUNDLES / name) == 2
    said = capsys.readouterr().err
    assert "predicts nothing of a model graph" in said or "which no family" in said
