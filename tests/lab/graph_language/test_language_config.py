"""The configuration file: defaults of the thesis, mistakes named."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

pytest.importorskip("torch")

from berth.pilot.documents import read_toml
from berth.pilot.errors import DocumentError, ToolMissing, UsageError
from lab.__main__ import lab
from lab.published.graph_language.language_config import LanguageConfig

LEAST = '[language_model]\npath = "llama"\n[[adapt]]\ndevice = "5090"\n'


def config(tmp_path, text):
    path = tmp_path / "graph-language.toml"
    path.write_text(text)
    return path


def test_defaults_are_the_thesis_s(tmp_path) -> None:
    found = read_toml(config(tmp_path, LEAST), LanguageConfig)
    assert (found.encoder.layers, found.encoder.width) == (5, 1024)
    assert (found.pretrain.epochs, found.pretrain.batch, found.pretrain.rate) == (500, 128, 5e-4)
    assert (found.pretrain.mask, found.pretrain.replaced, found.pretrain.power) == (0.5, 0.1, 2)
    assert (found.language_model.rank, found.regress.epochs) == (8, 10)
    assert (found.regress.encoder_rate, found.regress.language_rate) == (1e-3, 1e-4)
    assert (found.samples, found.adapt[0].epochs) == (32, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[adapt]]\ndevice = "5090"\n', "language_model"),
        ("[language_model]\n[[adapt]]\ndevice = '5090'\n", "either path or random"),
        ('[language_model]\npath = "a"\n', "adapt"),
        ('[language_model]\npath = "a"\n[[adapt]]\n', "either device or family"),
        (LEAST + '[[adapt]]\ndevice = "5090"\n', "same group twice"),
        (LEAST.replace('"llama"', '"llama"\nrank = 0\nprecision = "bfloat16"'), "float32"),
        ("sed = 1\n" + LEAST, "seed"),
        (LEAST + "[pretrain]\nmask = 1.0\n", "mask"),
    ],
)
def test_a_mistake_is_named(tmp_path, text, message) -> None:
    with pytest.raises(DocumentError) as caught:
        read_toml(config(tmp_path, text), LanguageConfig)
    assert message in f"{caught.value.message} {caught.value.hint}"


def run(*words):
    return CliRunner().invoke(lab, ["graph-language", *words])


@pytest.mark.parametrize("words", [(), ("--train",)])
def test_the_configuration_must_be_named(words) -> None:
    pytest.importorskip("peft")
    result = run(*words)
    assert isinstance(result.exception, UsageError)
    assert "name a configuration file" in result.exception.message


@pytest.mark.parametrize("words", [(), ("--train",)])
def test_without_the_data_set_its_source_is_named(words, tmp_path, monkeypatch) -> None:
    pytest.importorskip("peft")
    from lab.latency import timm_runs as data

    monkeypatch.setenv("BERTH_DATASETS", str(tmp_path))
    monkeypatch.setattr(data, "runs", data.runs.__wrapped__)
    monkeypatch.setattr(data, "graphs", data.graphs.__wrapped__)
    result = run(str(config(tmp_path, LEAST)), *words)
    assert isinstance(result.exception, ToolMissing)
    assert "dl/timm_benchmark.parquet" in result.exception.message


@pytest.mark.parametrize("words", [(), ("--train",)])
def test_without_the_extra_its_command_is_named(words, tmp_path, monkeypatch) -> None:
    import importlib.util

    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "peft" else there(name)
    )
    result = run(str(config(tmp_path, LEAST)), *words)
    assert isinstance(result.exception, ToolMissing)
    assert result.exception.hint == "pip install 'berth[language]'"
