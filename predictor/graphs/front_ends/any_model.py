"""Read the graph of any supported model: an ONNX file, a configuration, or a framework's object."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError, UsageError
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.reader import read_graph

_FRONT_ENDS = (
    ("keras", "keras_model"),  # first: with PyTorch behind it, a Keras model is a module too
    ("tf_keras", "keras_model"),
    ("torch.nn", "torch_module"),
)
_CODE = {
    ".pt": "PyTorch", ".pth": "PyTorch", ".pt2": "PyTorch", ".ckpt": "PyTorch", ".keras": "Keras",
    ".h5": "Keras", ".pb": "TensorFlow", ".pdmodel": "Paddle", ".safetensors": "weights",
}  # fmt: skip


def graph_of(
    model: object,
    *,
    batch: int | None = None,
    sizes: Mapping[str, int] | None = None,
    inputs: Any = None,
) -> ModelGraph:
    """Return the graph of a model at a batch size.

    ``model``: the path of an ONNX file or of a Hugging Face ``config.json`` (or its folder), a
    ``torch.nn.Module`` with example ``inputs`` (a tuple or a mapping of tensors), or a Keras
    model. ``sizes`` sets open dimensions by name.
    Raises DocumentError, UsageError, or ToolMissing where the framework is not installed.
    """
    if isinstance(model, str | Path):
        return of_path(Path(model), batch=batch, sizes=sizes)
    roots = [cls.__module__ for cls in type(model).__mro__]
    for package, front_end in _FRONT_ENDS:
        if any(root == package or root.startswith(f"{package}.") for root in roots):
            module = importlib.import_module(f"berth.predictor.graphs.front_ends.{front_end}")
            graph: ModelGraph = module.graph_of(model, batch=batch, sizes=sizes, inputs=inputs)
            return graph
    raise UsageError(
        f"a {type(model).__name__} is no model that Berth knows",
        hint="give an ONNX file, a config.json, or a PyTorch or Keras model",
    )


def of_path(
    path: Path, *, batch: int | None = None, sizes: Mapping[str, int] | None = None
) -> ModelGraph:
    """Return the graph of an ONNX file or a Hugging Face configuration at a batch size.

    Raises DocumentError, for other model files too, because opening them may run code.
    """
    config = path / "config.json" if path.is_dir() else path
    if config.suffix == ".json":
        front_end = importlib.import_module("berth.predictor.graphs.front_ends.huggingface")
        graph: ModelGraph = front_end.graph_of(config, batch=batch, sizes=sizes)
        return graph
    content = _CODE.get(path.suffix)
    if content is not None and path.exists():
        raise DocumentError(
            path,
            f"holds {content}, which may run code when it is opened, so Berth does not"
            if content != "weights"
            else "holds weights without the model they belong to",
            hint="export it to ONNX, or give its config.json",
        )
    return read_graph(path, batch=batch, sizes=sizes)
