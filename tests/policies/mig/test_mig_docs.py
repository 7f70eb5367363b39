"""The files shown in docs/mig.md are accepted and planned as the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest
from every_kind import SMALL_LLAMA
from small_models import convolutional

from berth.plugin import cli

PAGE = Path(__file__).resolve().parents[3] / "docs" / "mig.md"


def test_the_pages_fleet_and_jobs_make_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = {json.loads(b)["schema"]: b for b in re.findall(r"```json\n(.*?)```", text, re.S)}
    (tmp_path / "fleet.json").write_text(blocks["berth.mig-fleet/1"])
    (tmp_path / "jobs.json").write_text(blocks["berth.mig-jobs/1"])
    onnx.save(convolutional(blocks=8, channels=64), tmp_path / "resnet50.onnx")
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "config.json").write_text(json.dumps(SMALL_LLAMA))
    monkeypatch.chdir(tmp_path)
    lines = [x.split()[1:] for x in re.findall(r"^    (berth mig .*)$", text, re.M)]
    assert len(lines) >= 6
    for words in lines:
        if "--here" not in words:
            if words[1] == "export":
                assert words[2] in {"plan.json", "fleet.json"}
            cli.main(words)
    shown = capsys.readouterr().out
    assert "jobs placed (priority 1): 1, proven best" in shown
    assert "destroy 1g.5gb@5 after the end of 1g.5gb@5" in shown or "after the end of" not in shown
    assert (tmp_path / "mig.yaml").read_text().startswith("version: v1\n")
