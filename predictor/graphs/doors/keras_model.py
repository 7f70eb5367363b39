"""Keras models (TensorFlow, JAX or PyTorch behind them), by Keras's own ONNX export."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.pilot.errors import ToolMissing
from berth.predictor.graphs.doors.exported import failed, read_exported
from berth.predictor.graphs.graph import ModelGraph


def graph_of(
    model: Any,
    *,
    batch: int | None = None,
    sizes: Mapping[str, int] | None = None,
    inputs: Any = None,
) -> ModelGraph:
    """The graph of a built Keras model; ``inputs`` may give its input signature.

    Raises DocumentError where Keras cannot export it, ToolMissing without Keras's own converter
    (tf2onnx behind TensorFlow and JAX, onnxscript behind PyTorch).
    """
    name = str(getattr(model, "name", type(model).__name__))
    given = {} if inputs is None else {"input_signature": inputs}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                model.export(str(path), format="onnx", verbose=False, **given)
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
