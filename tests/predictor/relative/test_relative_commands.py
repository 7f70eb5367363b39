"""Relative performance on the command line: wrong usage and absent data in one sentence."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from site_profiles import write_site

from berth.pilot.errors import DocumentError, ToolMissing, UsageError
from berth.plugin.cli.command_line import berth
from lab.__main__ import lab


def run(*words):
    command = lab if words[0] == "relative" else berth
    return CliRunner().invoke(command, [str(word) for word in words])


@pytest.mark.parametrize(
    "words",
    [
        ("train", "profiles.jsonl", "--task", "relative-performance", "--out", "b"),
    ],
)
def test_profiles_that_do_not_exist_are_named(words) -> None:
    result = run(*words)
    assert isinstance(result.exception, DocumentError)
    assert "profiles.jsonl: does not exist" in result.exception.message


def test_figures_of_another_evaluation_are_refused() -> None:
    result = run("relative", "--figures", "e.json", "--train", "b")
    assert isinstance(result.exception, UsageError)
    assert "leave out --figures" in result.exception.message


def test_a_site_s_training_needs_profiles() -> None:
    result = run("train", "--task", "relative-performance", "--out", "b")
    assert isinstance(result.exception, UsageError)
    assert result.exception.message == "no PROFILES are given"


@pytest.mark.parametrize("words", [("--train", "bundle"), ()])
def test_without_the_data_set_its_source_is_named(words, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BERTH_DATASETS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    from lab.datasets import aiwc

    aiwc.rows.cache_clear()
    result = run("relative", *words)
    assert isinstance(result.exception, ToolMissing)
    assert "counters/aiwc_opencl.parquet" in result.exception.message
    assert not (tmp_path / "bundle").exists()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return write_site(tmp_path_factory.mktemp("site"), applications=4)


@pytest.mark.slow
def test_training_shows_baselines_beside_the_cost_model(site, tmp_path) -> None:
    words = ("train", "--task", "relative-performance", site, "--out")
    result = run(*words, tmp_path / "a")
    assert result.exit_code == 0, (result.output, result.exception)
    for word in ("left out in turn", "static best platform", "REGRET",
                 "KENDALL TAU", "MEDIAN ERROR"):  # fmt: skip
        assert word in result.output
    figures = json.loads(run(*words, tmp_path / "b", "--json").stdout)["figures"]
    ours, always = figures[0], figures[1]
    assert always["method"] == "static best platform"
    assert ours["median_time_error"] < always["median_time_error"]
