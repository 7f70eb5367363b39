"""`berth predict MODEL.onnx`: memory, whether it fits, MIG profile and energy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from small_models import convolutional

from berth.plugin.cli.command_line import berth


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "small.onnx"
    path.write_bytes(convolutional(blocks=4, channels=64).SerializeToString())
    return path


def predicted(path: Path, *arguments: object) -> dict[str, Any]:
    asked = ["predict", str(path), *map(str, arguments), "--json"]
    result = CliRunner().invoke(berth, asked)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def by_platform(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["platform"]: row for row in found["predictions"]}


def test_memory_is_an_interval_and_fits_is_a_word(written: Path) -> None:
    rows = by_platform(predicted(written, "--batch", 4))
    for row in rows.values():
        host, gpu = row["host_memory_bytes"], row["gpu_memory_bytes"]
        assert (host is None) != (gpu is None)
        memory = host or gpu
        assert 0 < memory["low"] <= memory["mid"] <= memory["high"]
        assert row["fits"] == "yes"
        assert row["memory_training_bytes"]["high"] >= memory["low"]
    gpu, host = rows["a100-40gb"], rows["epyc-genoa-vm"]
    assert gpu["gpu_memory_bytes"] != host["host_memory_bytes"]
    assert 0 < gpu["energy_idle_share"] <= 1
    assert host["energy_j"] is None


def test_what_is_too_large_does_not_fit_and_gets_no_slice(written: Path) -> None:
    found = predicted(written, "--batch", 2**20, "--platform", "a100-40gb")
    row = by_platform(found)["a100-40gb"]
    assert row["fits"] in ("may", "no")
    assert found["mig"] == {"a100-40gb": None}


def test_half_precision_needs_less(written: Path) -> None:
    wide, half = (
        by_platform(predicted(written, "--batch", 4096, "--precision", p))["a100-40gb"]
        for p in ("fp32", "fp16")
    )
    assert half["gpu_memory_bytes"]["mid"] < wide["gpu_memory_bytes"]["mid"]


def test_gpus_that_can_be_cut_get_the_smallest_slice_that_holds_the_model(written: Path) -> None:
    found = predicted(written, "--batch", 4)
    assert found["mig"]["a100-40gb"] == "1g.5gb"
    assert not {"epyc-genoa-vm", "v100-pcie-32gb", "a100-mig-1g.5gb"} & set(found["mig"])


def test_the_text_has_memory_other_tasks_and_slices(written: Path) -> None:
    asked = ["predict", str(written), "--platform", "a100-40gb", "--platform", "a100-mig-1g.5gb"]
    result = CliRunner().invoke(berth, [*asked, "--batch", "131072"])
    assert result.exit_code == 0, result.output
    assert "GPU MEMORY (95 %)" in result.output
    assert "training with Adam" in result.output
    assert "Smallest MIG slice that holds it: " in result.output
    assert "does not fit" in result.output
