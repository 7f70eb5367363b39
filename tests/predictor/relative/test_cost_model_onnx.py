"""The cost model as ONNX, and every shipped family through the form that it is shipped in."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner
from test_cost_model import FAMILY, physical

from berth.pilot.errors import BerthError, UsageError
from berth.plugin.cli.command_line import berth
from berth.predictor.families.relative.cost_model import cost_model_file, cost_model_of
from berth.predictor.learning.relative.cost_model_family import CostModelFamily
from berth.predictor.learning.relative.cost_model_onnx import (
    check_graph,
    cost_model_onnx,
    inputs_of,
)
from lab.datasets.aiwc import KINDS
from lab.relative.data import aiwc_rows

BAR = 1e-4


@pytest.fixture(scope="module")
def model():
    return FAMILY.fit(physical(), 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_graph_says_what_the_cost_model_says_of_known_and_unknown_programs(model, seed) -> None:
    rows = physical(applications=8, seed=seed).knowing()
    session = onnxruntime.InferenceSession(
        cost_model_onnx(model), providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, inputs_of(model, rows))
    ours = model.guess(
        model.seen(rows),
        rows.log_reference,
        list(zip(rows.applications, rows.kernels, strict=True)),
    )
    assert np.abs(found - ours).max() < 1e-9


def test_another_graph_is_never_written(model) -> None:
    other = cost_model_onnx(FAMILY.fit(physical(seed=3), 0))
    with pytest.raises(BerthError, match="differs from the trained one"):
        check_graph(other, model)


def test_on_the_public_data_graph_and_json_are_the_trainers_own(tmp_path) -> None:
    try:
        rows = aiwc_rows()
    except BerthError as error:
        pytest.skip(error.message)
    fitted, asked = CostModelFamily(kinds=KINDS).fit(rows, 0), rows.knowing()
    served = cost_model_of(cost_model_file(fitted), tmp_path / "model.json").log_seconds(asked)
    assert np.abs(served - fitted.log_seconds(asked)).max() < BAR
    session = onnxruntime.InferenceSession(
        cost_model_onnx(fitted), providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, inputs_of(fitted, asked))
    known = np.isfinite(asked.log_seconds)
    assert np.abs(np.where(known, 0, found - fitted.log_seconds(asked))).max() < BAR


def test_the_command_writes_a_graph_and_says_how_far_off_it_is(tmp_path) -> None:
    from site_profiles import write_site

    site = write_site(tmp_path / "site", applications=4)
    words = ["train", "--task", "relative-performance", str(site), "--out", str(tmp_path / "b")]
    assert CliRunner().invoke(berth, words).exit_code == 0
    out = tmp_path / "cost model.onnx"
    result = CliRunner().invoke(
        berth, ["train", "bundle", "onnx", str(tmp_path / "b"), "-o", str(out)]
    )
    assert result.exit_code == 0, result.exception
    assert "from the bundle's own answers" in result.output
    names = [each.name for each in onnxruntime.InferenceSession(out.read_bytes()).get_inputs()]
    assert names == ["features", "terms", "log_reference", "common"]
    words = [
        "train",
        "bundle",
        "onnx",
        str(tmp_path / "b"),
        "-o",
        str(tmp_path / "no" / "cost model.onnx"),
    ]
    refused = CliRunner().invoke(berth, words)
    assert isinstance(refused.exception, UsageError)
