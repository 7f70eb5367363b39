"""A bundle's cost model as an ONNX file."""

from __future__ import annotations

from pathlib import Path

from berth.pilot.errors import DocumentError, UsageError
from berth.predictor.families.relative.bundle import load
from berth.predictor.families.relative.cost_model import CostModel
from berth.predictor.learning.relative.cost_model_onnx import check_graph, cost_model_onnx


def export_cost_model(folder: Path, out: Path) -> float:
    """Write the graph; the largest difference to the bundle, in log time.

    Raises UsageError where the bundle is of another family, DocumentError where it is damaged or
    ``out`` cannot be written, BerthError where graph and bundle say different things.
    """
    model = load(folder).model
    if not isinstance(model, CostModel):
        raise UsageError(f"{folder} is an ONNX model already", hint="copy its model.onnx")
    raw = cost_model_onnx(model)
    apart = check_graph(raw, model)
    try:
        out.write_bytes(raw)
    except OSError as error:
        raise DocumentError(out, f"cannot be written: {error.strerror}") from None
    return apart
