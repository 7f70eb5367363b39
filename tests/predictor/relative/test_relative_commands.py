"""``berth train|evaluate --task relative``: wrong usage and absent data in one sentence."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from berth.pilot.errors import ToolMissing, UsageError
from berth.plugin.cli import berth


def run(*words: str):
    return CliRunner().invoke(berth, words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "profiles.jsonl", "--out", "b"), "profiles.jsonl: does not exist"),
        (("train", "--figures", "e.json", "--out", "b"), "leave out --figures"),
        (("evaluate", "profiles.jsonl"), "profiles.jsonl: does not exist"),
    ],
)
def test_what_the_task_does_not_take_is_refused(words, message) -> None:
    result = run(*words, "--task", "relative")
    assert isinstance(result.exception, UsageError)
    assert message in result.exception.message


@pytest.mark.parametrize("words", [("train", "--out", "bundle"), ("evaluate",)])
def test_without_the_data_set_its_source_is_named(words, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BERTH_DATASETS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    from lab.datasets import aiwc

    aiwc.rows.cache_clear()
    result = run(*words, "--task", "relative")
    assert isinstance(result.exception, ToolMissing)
    assert "counters/aiwc_opencl.parquet" in result.exception.message
    assert not (tmp_path / "bundle").exists()


def test_an_unknown_group_of_families_is_named() -> None:
    result = run("evaluate", "--task", "relative", "--family", "astrology")
    assert isinstance(result.exception, UsageError)
    assert "astrology" in result.exception.message
