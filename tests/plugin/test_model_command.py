"""``berth workload model`` on files good and bad."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from onnx import helper
from small_models import attention, convolutional, model

from berth.pilot.errors import BerthError
from berth.plugin.cli.command_line import berth


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "small.onnx"
    found.write_bytes(convolutional().SerializeToString())
    return found


def show(*arguments: str | Path) -> str:
    result = CliRunner().invoke(berth, ["workload", "model", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_the_page_names_totals_operators_and_bottlenecks(path: Path) -> None:
    text = show(path, "--batch", "8")
    assert "12 nodes, opset 20, batch 8; x [8, 3, 8, 8]" in text
    assert "times the same 4 nodes" in text
    assert "Computes most" in text
    assert "Moves most for little computing" in text
    table = text.partition("Computes most")[0]
    rows = {line.split()[0]: line.split() for line in table.splitlines() if line.strip()}
    assert rows["BatchNormalization"][1] == "2"


def test_json_holds_every_operator_and_its_share(path: Path) -> None:
    page = json.loads(show(path, "--batch", "2", "--json"))
    assert (page["batch"], page["nodes"], page["unknown_operators"]) == (2, 12, {})
    assert sum(row["nodes"] for row in page["operators"]) == 12
    assert sum(row["flops_share"] for row in page["operators"]) == pytest.approx(1)
    assert page["flops"] == sum(row["flops"] for row in page["operators"])
    assert page["inputs"] == [{"name": "x", "type": "float32", "shape": [2, 3, 8, 8]}]


def test_other_dimensions_are_given_by_name(tmp_path: Path) -> None:
    path = tmp_path / "attention.onnx"
    path.write_bytes(attention().SerializeToString())
    assert "x [1, 6, 16]" in show(path, "--dim", "sequence=6")
    with pytest.raises(BerthError) as error:
        show(path)
    assert error.value.exit_status == 2
    assert "--dim sequence=16" in str(error.value.hint)


@pytest.mark.parametrize("text", ["sequence", "=3", "sequence=x", "sequence=-1", "n=99999999999"])
def test_a_dimension_that_is_none_is_refused(path: Path, text: str) -> None:
    with pytest.raises(BerthError, match="is not NAME=SIZE"):
        show(path, "--dim", text)


def test_unknown_operators_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "unknown.onnx"
    nodes = [
        helper.make_node("Fold", ["x"], ["a"], domain="theirs"),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    path.write_bytes(model(nodes).SerializeToString())
    text = show(path)
    assert "Unknown operators, counted as no operations: theirs:Fold (1)" in text
    assert "1 of their outputs are taken to be like their inputs" in text
