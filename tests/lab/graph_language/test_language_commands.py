"""``python -m lab graph-language`` from one file, on a tiny table."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("torch", reason="needs the extra `language`")
pytest.importorskip("xgboost")

import tiny_latency

from berth.pilot.errors import DocumentError
from lab.__main__ import lab
from lab.latency import timm_runs as data
from lab.published.graph_language.evaluate_language import PROCESS
from lab.published.graph_language.language_config import LanguageConfig

DOCS = Path(__file__).resolve().parents[3] / "lab" / "published" / "README.md"
CONFIG = """
rows = 20
samples = 3
test_rows = 6
encoder = {{ layers = 2, width = 16 }}
pretrain = {{ epochs = 1, batch = 8 }}
language_model = {{ path = "{path}", rank = 4 }}
align = {{ epochs = 1, batch = 8 }}
regress = {{ epochs = 1, batch = 8 }}
[[adapt]]
device = "5090"
epochs = 1
"""


@pytest.fixture
def file(checkpoint_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(data, "runs", tiny_latency.runs)
    monkeypatch.setattr(data, "graphs", tiny_latency.graphs)
    path = tmp_path / "config.toml"
    path.write_text(CONFIG.format(path=checkpoint_folder))
    return path


def run(*words: object):
    return CliRunner().invoke(lab, ["graph-language", *map(str, words)])


def test_train_then_evaluate_on_what_was_trained(file, tmp_path) -> None:
    trained = run(file, "--train")
    assert trained.exit_code == 0, trained.exception
    for stage in ("pretrain", "align", "regress", "adapt-device-5090"):
        assert stage in trained.output
    assert f"written to {tmp_path / 'graph-language'}" in trained.output
    kept = (tmp_path / "graph-language" / "regress.safetensors").stat().st_mtime_ns

    shown = run(file, "--report", tmp_path / "report")
    assert shown.exit_code == 0, shown.exception
    assert "base of 20 rows without device 5090; 3 rows of each group given" in shown.output
    for method in ("GNN + language model", PROCESS):
        assert method in shown.output
    assert (tmp_path / "graph-language" / "regress.safetensors").stat().st_mtime_ns == kept

    printed = json.loads(run(file, "--json").output)
    assert printed == json.loads((tmp_path / "report" / "evaluation.json").read_text())
    assert {result["figures"]["rows"] for result in printed["results"]} == {6}


def test_a_checkpoint_that_is_none_is_named_before_anything_is_trained(file, tmp_path) -> None:
    file.write_text(CONFIG.format(path=tmp_path / "nowhere"))
    result = run(file, "--train")
    assert isinstance(result.exception, DocumentError)
    assert "is not a folder" in result.exception.message
    assert not (tmp_path / "graph-language").exists()


def test_the_page_s_example_is_a_configuration() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        LanguageConfig.model_validate(tomllib.loads(block))
