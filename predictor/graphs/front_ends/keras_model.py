"""Read the graph of a Keras model (on TensorFlow, JAX or PyTorch) by Keras's own ONNX export."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.pilot.errors import ToolMissing, UsageError
from berth.predictor.graphs.front_ends.exported import failed, framework, read_exported
from berth.predictor.graphs.graph import ModelGraph


def graph_of(
    model: Any,
    *,
    batch: int | None = None,
    sizes: Mapping[str, int] | None = None,
    inputs: Any = None,
) -> ModelGraph:
    """Return the graph of a built Keras model; ``inputs`` may be its input signature.

    Raises UsageError for a model that was not built, DocumentError where Keras cannot export the
    model, ToolMissing without Keras's converter (tf2onnx for TensorFlow and JAX, onnxscript for
    PyTorch).
    """
    name = str(getattr(model, "name", type(model).__name__))
    keras = framework("keras", what="reading Keras models", extra="'berth[frameworks]'")
    if inputs is None:
        specs = [
            keras.InputSpec(shape=x.shape, dtype=x.dtype, name=x.name)
            for x in getattr(model, "inputs", None) or ()
        ]
        inputs = [specs] if len(specs) > 1 else specs
    if not inputs:
        raise UsageError(f"{name} was never built", hint="call it once, or give inputs=[InputSpec]")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                model.export(str(path), format="onnx", verbose=False, input_signature=inputs)
            data = path.read_bytes()
        except ImportError as error:
            raise ToolMissing(
                f"the Python library {error.name or 'of Keras for ONNX'}",
                needed_for="exporting Keras models",
                hint="pip install tf2onnx (TensorFlow, JAX) or 'berth[deep]' (PyTorch)",
            ) from None
        except Exception as error:
            raise failed(name, "Keras", error) from None
    return read_exported(data, source=name, batch=batch, sizes=sizes)
