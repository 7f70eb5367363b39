"""``berth pilot dl`` and the measurements that the project commits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import run
from small_models import convolutional

from berth.pilot.dl.document import Outcome, Task
from berth.predictor.graphs.reader import read_graph
from berth.predictor.learning.graphs.adapt import run_seconds
from lab.graphs.model_runs import DATA, runs


@pytest.fixture
def written(tmp_path: Path) -> Path:
    made = convolutional()
    made.ir_version = 10
    path = tmp_path / "small.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def test_measured_once_then_known(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = written.with_name("runs.jsonl")
    line = ("pilot", "dl", written, "--batch", "1,2", "--repeats", 3, "--output", output)
    assert run(*line) == 0
    assert "2 measured now, 0 known before" in capsys.readouterr().out
    assert run(*line, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [f["setting"]["batch"] for f in found] == [1, 2]
    graph = read_graph(written, batch=2)
    assert found[1]["model"]["graph"] == graph.digest
    assert found[1]["model"]["macs"] == graph.total_macs
    assert {f["outcome"] for f in found} == {"ok"}
    assert len(output.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no MODEL"),
        (["absent.onnx"], "no model absent.onnx"),
        (["{}", "--precision", "fp12"], "none of fp32"),
        (["{}", "--batch", "0"], "whole numbers"),
        (["{}", "--platform", "a b"], "--platform"),
        (["{}", "--sm-percentage", "200"], "between 1 and 100"),
        (["{}", "--plan", "plan.toml"], "no MODEL beside it"),
        (["--plan", "{}"], "not"),
    ],
)
def test_bad_input_is_one_sentence(
    written: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("pilot", "dl", *(str(written) if a == "{}" else a for a in arguments)) == 2
    assert said in capsys.readouterr().err


def test_the_committed_measurements_are_sound() -> None:
    found = runs()
    assert len({one.key for one in found}) == len(found)
    fine = [one for one in found if one.outcome is Outcome.OK]
    families = {re.split(r"[_\d]", one.model.name)[0] for one in fine}
    assert len(families) >= 10
    assert {Task.INFERENCE, Task.TRAINING} == {one.setting.task for one in fine}
    assert all(one.model.macs and one.measurements["host_peak_bytes"].value for one in fine)
    assert all((value := run_seconds(one)) is not None and value > 0 for one in fine)
    assert not any(one.provenance.user for one in found)


def test_the_card_says_how_many_there_are() -> None:
    card = DATA.with_name("README.md").read_text(encoding="utf-8")
    found = runs()
    assert f"{len(found)} measurements" in card
    assert f"{len({one.model.name for one in found})} models" in card
