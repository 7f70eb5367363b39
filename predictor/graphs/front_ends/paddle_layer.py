"""Read the graph of a Paddle layer, exported by paddle.onnx (paddle2onnx)."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.pilot.errors import UsageError
from berth.predictor.graphs.front_ends.exported import failed, framework, read_exported
from berth.predictor.graphs.graph import ModelGraph

OPSET = 17


def graph_of(
    layer: Any,
    *,
    batch: int | None = None,
    sizes: Mapping[str, int] | None = None,
    inputs: Any = None,
) -> ModelGraph:
    """Return the graph of a ``paddle.nn.Layer``; ``inputs`` are its InputSpecs.

    Raises UsageError without inputs, DocumentError where Paddle cannot export the layer, and
    ToolMissing without paddle or paddle2onnx.
    """
    name = type(layer).__name__
    paddle = framework("paddle", what="reading Paddle layers", extra="paddlepaddle")
    framework("paddle2onnx", what="exporting Paddle layers", extra="paddle2onnx")
    if inputs is None:
        raise UsageError(
            f"{name} needs its input specifications", hint="give inputs=[InputSpec([None, 3, ...])]"
        )
    with tempfile.TemporaryDirectory() as folder:
        try:
            layer.eval()
            with contextlib.redirect_stdout(io.StringIO()):
                paddle.onnx.export(
                    layer, str(Path(folder) / "model"), input_spec=inputs, opset_version=OPSET
                )
            data = (Path(folder) / "model.onnx").read_bytes()
        except Exception as error:
            raise failed(name, "Paddle", error) from None
    return read_exported(data, source=name, batch=batch, sizes=sizes)
