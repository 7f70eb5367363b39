"""Convert ONNX models of older operator sets, by the ``onnx`` library, in the unprivileged child.

``child`` imports this module before it drops its rights, and only in a process that is started
for a file of an older operator set.
"""

from __future__ import annotations

import contextlib

import onnx
from onnx import shape_inference, version_converter

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.onnx_file import OLDEST_OPSET


def converted(data: bytes) -> bytes:
    """Return the model in ``data``, which may lack its weights, at ``OLDEST_OPSET``.

    Raises Problem with the converter's reason.
    """
    try:
        model = onnx.load_model_from_string(data)
        model.ir_version = max(model.ir_version, 4)  # before, each constant had to be an input
        # Some conversions depend on shapes; the converter needs those that the file lacks.
        with contextlib.suppress(Exception):
            model = shape_inference.infer_shapes(model)
        converted_model: bytes = version_converter.convert_version(
            model, OLDEST_OPSET
        ).SerializeToString()
    except Exception as error:
        # The library raises many exception types; each means that the file was not converted.
        line = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        reason = line.rpartition("` failed: ")[2][:200]  # without the library's own file and line
        raise Problem(
            f"is of an operator set before {OLDEST_OPSET} and was not converted: {reason}",
            "export it again with a newer operator set",
        ) from None
    return converted_model
