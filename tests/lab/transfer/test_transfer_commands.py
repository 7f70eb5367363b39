"""The commands of evaluation and training, on a tiny table in place of the data set."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from berth.pilot.errors import DocumentError
from berth.plugin.cli import main as berth
from berth.predictor.families.graph.transfer import bundle
from lab.__main__ import main
from lab.experiments.experiment import Options
from lab.ground.figures import curve, figures
from lab.transfer import evaluate_transfer, new_machine, transfer_cases, transfer_report
from lab.transfer.evaluate_transfer import FewShot
from lab.transfer.transfer_cases import Measured
from lab.transfer.transfer_methods import METHODS

ONE = figures(np.zeros(2), np.log([1.5, 1.5]), np.array(["a", "b"]))


@pytest.fixture(scope="module")
def found(tiny_table: Measured) -> FewShot:
    """The few-shot evaluation of one method."""
    pytest.importorskip("xgboost")
    pytest.importorskip("onnxmltools")
    return evaluate_transfer.evaluate_few_shot(
        tiny_table, methods=METHODS[:1], samples=(0, 2), most=4
    )


@pytest.fixture
def tiny(tiny_table: Measured, found: FewShot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything a command asks for, small."""
    machine = {"drawn": curve((0,), 1, lambda *_: ONE)}
    monkeypatch.setattr(transfer_cases, "timm_cases", lambda: tiny_table)
    monkeypatch.setattr(evaluate_transfer, "evaluate_few_shot", lambda *_, **__: found)
    monkeypatch.setattr(new_machine, "evaluate_new_machine", lambda **_: machine)


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_the_evaluation_is_printed_and_kept_and_trained_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report"
    main(["model-transfer", "--report", str(report)])
    shown = capsys.readouterr().out
    assert "Split: each device in turn new" in shown
    assert "Our own runs" in shown
    document = json.loads((report / "evaluation.json").read_text())
    assert document["new_machine"]["drawn"][0]["mean"]["mean_error"] == pytest.approx(0.5)
    assert "process by device" in (report / "evaluation.md").read_text()
    out = tmp_path / "bundle"
    figures = str(report / "evaluation.json")
    main(["model-transfer", "--figures", figures, "--train", str(out)])
    assert len(bundle.load(out).widths) == 4
    assert "What is not verified" in (out / "CARD.md").read_text()
    capsys.readouterr()
    berth(["train", "bundle", "show", str(out)])
    assert "rtx-3090-24gb" in capsys.readouterr().out
    berth(["train", "bundle", "verify", str(out)])
    assert capsys.readouterr().out == f"{bundle.load(out).id}: whole\n"


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("text", ["", "[]", '{"widths": 3}', '{"widths": [{"a": 1}]}'])
def test_figures_of_something_else_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "figures.json"
    path.write_text(text)
    with pytest.raises(DocumentError, match="is not this evaluation"):
        transfer_report.train(asked(tmp_path / "out", path))
    with pytest.raises(DocumentError, match="cannot be read"):
        transfer_report.train(asked(tmp_path / "out", tmp_path / "none.json"))


def asked(out: Path, figures: Path) -> Options:
    return Options(out=out, figures=figures)
