"""The commands: what they print, and one sentence with status 2 for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import run
from toy_profiles import profile

from berth.pilot.documents import write_json
from berth.predictor.hardware import platforms
from lab.__main__ import main as lab
from lab.datasets.rajaperf import rows


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "triad.json"
    write_json(path, profile())
    return path


def test_predict_ranks_every_platform(
    written: Path, toy_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", written, "--bundle", toy_bundle, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    found = data["predictions"]
    assert {p["platform"] for p in found} == set(platforms.shipped())
    order = [(p["basis"] == "prior" or bool(p["abstained"]), p["runtime_s"]["mid"]) for p in found]
    assert order == sorted(order)
    assert all(sum(s["weight"] for s in p["sources"]) == pytest.approx(1) for p in found)
    assert all(
        p["runtime_s"]["low"] <= p["runtime_s"]["mid"] <= p["runtime_s"]["high"] for p in found
    )


def test_predict_shows_a_table(
    written: Path, toy_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("predict", written, "--bundle", toy_bundle, "--platform", "quartz", "--cores", 8)
    assert run(*arguments) == 0
    out = capsys.readouterr().out
    assert "8 cores" in out
    assert "scaled" in out
    assert "lassen" not in out


def test_predict_at_another_size(
    written: Path, toy_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("predict", written, "--bundle", toy_bundle, "--size", "2e6", "--json")
    assert run(*arguments) == 0
    assert json.loads(capsys.readouterr().out)["size"] == 2e6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "absent.json"), "does not exist"),
        (("site", "platform", "show", "quarz"), "did you mean 'quartz'"),
        (("train", "bundle", "verify", "absent"), "not a bundle folder"),
        (("train", "bundle", "show", "absent"), "not a bundle folder"),
        (
            ("train", "absent.jsonl", "--out", "x", "--adapt", "default", "--platform", "quartz"),
            "No such file",
        ),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_a_profile_that_lacks_counters_is_predicted_like_a_typical_program(
    tmp_path: Path, toy_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bare.json"
    write_json(path, profile(drop=("instructions",)))
    assert run("predict", path, "--bundle", toy_bundle) == 0
    assert "it has no instructions" in capsys.readouterr().out


def test_platforms_are_listed_shown_and_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(platforms.FOLDER_VARIABLE, raising=False)
    assert run("site", "platform", "list", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)) == len(platforms.shipped())
    assert run("site", "platform", "show", "quartz") == 0
    text = capsys.readouterr().out
    mine = tmp_path / "mine.json"
    mine.write_text(text.replace('"name": "quartz"', '"name": "mine"'))
    assert run("site", "platform", "add", mine) == 2
    capsys.readouterr()
    monkeypatch.setenv(platforms.FOLDER_VARIABLE, str(tmp_path / "site"))
    assert run("site", "platform", "add", mine) == 0
    capsys.readouterr()
    assert run("site", "platform", "show", "mine") == 0


def test_bundle_show_and_verify(toy_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "bundle", "show", toy_bundle) == 0
    assert "lassen-v100" in capsys.readouterr().out
    assert run("train", "bundle", "show", toy_bundle, "--card") == 0
    assert "# Model card" in capsys.readouterr().out
    assert run("train", "bundle", "verify", toy_bundle) == 0
    assert "whole" in capsys.readouterr().out


def test_train_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BERTH_DATASETS", str(tmp_path))
    rows.cache_clear()
    with pytest.raises(SystemExit) as stopped:
        lab(["programs", "--train", str(tmp_path / "bundle")])
    assert stopped.value.code == 1
    assert "BERTH_DATASETS" in capsys.readouterr().err
    assert not (tmp_path / "bundle").exists()
