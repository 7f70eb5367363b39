"""Relative performance on the command line: wrong usage and absent data in one sentence."""

from __future__ import annotations

from click.testing import CliRunner

from berth.pilot.errors import ToolMissing
from lab.__main__ import lab


def run(*words):
    return CliRunner().invoke(lab, [str(word) for word in words])


def test_without_the_data_set_its_source_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BERTH_DATASETS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    from lab.datasets import aiwc

    aiwc.rows.cache_clear()
    result = run("relative")
    assert isinstance(result.exception, ToolMissing)
    assert "counters/aiwc_opencl.parquet" in result.exception.message
