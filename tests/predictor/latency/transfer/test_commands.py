"""The commands of evaluation and training, on a tiny table in place of the data set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from berth.pilot.errors import DocumentError
from berth.plugin.cli import main as berth
from berth.predictor.families.graph.latency.transfer import bundle
from lab.__main__ import main
from lab.experiments import model_transfer
from lab.experiments.options import Options
from lab.transfer import curves as few_shot
from lab.transfer import own_runs as few_shot_runs
from lab.transfer import table as tables
from lab.transfer.baselines import METHODS
from lab.transfer.table import Table

OWN = (few_shot_runs.OwnRuns(0, 0.5, 0.4, 0.1, 0.1, 0.1, 0.5, 0.1),)


@pytest.fixture
def tiny(tiny_table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything a command asks for, small."""
    pytest.importorskip("xgboost")
    pytest.importorskip("onnxmltools")
    found = few_shot.evaluate_few_shot(tiny_table, methods=METHODS[:1], samples=(0, 2), most=4)
    monkeypatch.setattr(tables, "timm_table", lambda: tiny_table)
    monkeypatch.setattr(few_shot, "evaluate_few_shot", lambda *_, **__: found)
    monkeypatch.setattr(few_shot_runs, "evaluate_own_runs", lambda **_: OWN)


@pytest.mark.usefixtures("tiny")
def test_the_evaluation_is_printed_and_kept_and_trained_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    report = tmp_path / "report"
    main(["model-transfer", "--report", str(report)])
    shown = capsys.readouterr().out
    assert "Split: each device in turn new" in shown
    assert "Our own runs" in shown
    document = json.loads((report / model_transfer.FIGURES).read_text())
    assert document["own_runs"][0]["mape"] == 0.5
    assert (report / "few-shot-dl.svg").is_file()
    assert "one stack" in (report / "few-shot-dl.md").read_text()
    out = tmp_path / "bundle"
    figures = str(report / model_transfer.FIGURES)
    main(["model-transfer", "--figures", figures, "--train", str(out)])
    assert len(bundle.load(out).widths) == 4
    assert "What is not verified" in (out / "CARD.md").read_text()
    capsys.readouterr()
    berth(["bundle", "show", str(out)])
    assert "rtx-3090-24gb" in capsys.readouterr().out
    berth(["bundle", "verify", str(out)])
    assert capsys.readouterr().out == f"{bundle.load(out).id}: whole\n"


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("text", ["", "[]", '{"curves": 3}', '{"curves": [{"a": 1}]}'])
def test_figures_of_something_else_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "figures.json"
    path.write_text(text)
    with pytest.raises(DocumentError, match="is not this evaluation"):
        model_transfer.train(asked(tmp_path / "out", path))
    with pytest.raises(DocumentError, match="cannot be read"):
        model_transfer.train(asked(tmp_path / "out", tmp_path / "none.json"))


def asked(out: Path, figures: Path) -> Options:
    return Options(out=out, figures=figures)
