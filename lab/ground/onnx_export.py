"""Build ONNX files node by node, and check that a file agrees with its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import (
    NodeProto,
    TensorProto,
    checker,
    helper,
    numpy_helper,
)

from berth.pilot.errors import BerthError
from berth.predictor.core.arrays import Floats

_OPSET, _IR = 15, 8
_TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64}
"""ONNX element types by numpy name."""


@dataclass(slots=True)
class OnnxGraph:
    """An ONNX graph under construction.

    Nodes and constants are named in the order of the calls, so that the same calls give the same
    bytes.
    """

    stem: str = "v"
    """Prefix of the nodes' output names."""
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)
    domains: dict[str, int] = field(default_factory=dict)
    """Version by domain of operator sets other than ONNX's own, for example the one of trees."""

    def add(
        self, operator: str, *inputs: str | NDArray[Any], to: str = "", **attributes: Any
    ) -> str:
        """Add one node and return the name of its output; array inputs become constants.

        ``to``: name for the output; empty: the next free name.
        """
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        out = to or f"{self.stem}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [out], **attributes))
        return out

    def cast(self, value: str, kind: str, to: str = "") -> str:
        """Add a cast of ``value`` to ``kind`` (``float32``, ``float64``, ``int64``) and return the
        output's name."""
        out = to or f"{self.stem}{len(self.nodes)}"
        self.nodes.append(helper.make_node("Cast", [value], [out], to=_TYPES[kind]))
        return out

    def constant(self, values: NDArray[Any]) -> str:
        """Add a constant array and return the constant's name."""
        name = f"c{len(self.constants)}"
        array = np.ascontiguousarray(values) if np.ndim(values) else np.asarray(values)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def model(
        self,
        name: str,
        inputs: Mapping[str, tuple[int, str]],
        output: tuple[str, int],
        properties: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the graph as a checked ONNX file in bytes.

        ``inputs``: width and type by name, shape [rows, width]; ``output``: name and width of the
        only, float64 output; ``properties``: metadata of the file.
        """
        graph = helper.make_graph(
            self.nodes, name,
            [
                helper.make_tensor_value_info(key, _TYPES[kind], [None, width])
                for key, (width, kind) in inputs.items()
            ],
            [helper.make_tensor_value_info(output[0], TensorProto.DOUBLE, [None, output[1]])],
            self.constants,
        )  # fmt: skip
        opsets = [helper.make_opsetid(*key) for key in {"": _OPSET, **self.domains}.items()]
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = _IR
        if properties:
            helper.set_model_props(model, dict(properties))
        checker.check_model(model)
        return bytes(model.SerializeToString())


def session_of(raw: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])


def run(session: onnxruntime.InferenceSession, inputs: Mapping[str, NDArray[Any]]) -> Floats:
    """Return the first output of an ONNX model for ``inputs``; inputs that the graph does not read
    are ignored."""
    known = {node.name for node in session.get_inputs()}
    (output, *_) = session.run(None, {name: inputs[name] for name in inputs if name in known})
    return np.asarray(output, np.float64)


def agreement(
    raw: bytes, inputs: Mapping[str, NDArray[Any]], expected: Floats, tolerance: float
) -> float:
    """Return the largest absolute difference between an ONNX file's first output and ``expected``.

    Raises BerthError above ``tolerance``: such a file must not be written.
    """
    output = run(session_of(raw), inputs)
    apart = float(np.abs(output.reshape(np.shape(expected)) - expected).max())
    if not apart <= tolerance:
        raise BerthError(
            f"the converted model differs from the trained one by {apart:.3g}; nothing was written"
        )
    return apart
