"""NeuSight's rows as calls; skipped where the data set is absent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from berth.pilot.errors import DocumentError, ToolMissing
from berth.predictor.families.graph.operators.calls import CallKind
from berth.predictor.hardware.catalogue import find
from lab import datasets
from lab.datasets import neusight

present = pytest.mark.skipif(
    not (datasets.folder() / neusight.OPERATORS.path).is_file(),
    reason=f"needs {neusight.OPERATORS.path}: set {datasets.FOLDER_VARIABLE}",
)


def test_an_absent_or_changed_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(ToolMissing, match="neusight_ops"):
        neusight.operators()
    (tmp_path / "dl").mkdir()
    (tmp_path / neusight.OPERATORS.path).write_bytes(b"other")
    with pytest.raises(DocumentError, match="checksum"):
        neusight.operators()


@present
def test_every_row_is_a_call_on_a_known_gpu_and_the_l4_is_for_testing_alone() -> None:
    from lab.operators.operator_rows import rows

    found = rows()
    assert len(found) == len(found.calls) == 331_882
    assert found.test[found.gpu == "l4-24gb"].all()
    assert not found.test[found.operator == "conv"].any()
    assert (found.seconds > 0).all()
    linear = found.calls[found.operator == "linear"]
    assert set(linear.kind.tolist()) == {int(CallKind.LINEAR)}
    assert (linear.groups == 1).all()
    assert (linear.flops == 2 * linear.rows * linear.columns * linear.inner).all()
    assert np.isin(found.chip[found.gpu == "a100-pcie-80gb"], ["GA100"]).all()


@present
def test_whole_models_are_on_known_gpus() -> None:
    found = neusight.whole_models()
    assert len(found) == 115
    for row in found:
        assert find(row.device)
        assert row.seconds > 0
        assert row.seconds >= 0.99 * (row.forward_s + row.backward_s)
    assert {row.option for row in found} == {"", "fusion", "dp4", "tp4", "pp4_1"}
