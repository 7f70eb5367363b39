"""A fitted process as ONNX, in double precision, and the proof that both say the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from berth.pilot.errors import BerthError
from berth.predictor.families.graph.latency.features import Floats
from lab.steps.family import VARIANCE, Process

TOLERANCE = 1e-6
_OPSET = 15


def to_onnx(process: Process) -> bytes:
    """Input ``features`` [rows, any] double, output ``rest`` [rows, 1]."""
    constants: list[Any] = []
    nodes: list[Any] = []

    def constant(value: Floats) -> str:
        name = f"c{len(constants)}"
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    theirs = process.rows
    mine = node("Mul", node("Sub", "features", constant(process.centre)), constant(process.scale))
    squares = node("ReduceSumSquare", mine, axes=[1], keepdims=1)
    cross = node("MatMul", mine, constant(-2 * theirs.T))
    square = node("Add", node("Add", squares, cross), constant((theirs**2).sum(axis=1)[None]))
    zero = constant(np.array([[0.0]]))
    apart = node("Sqrt", node("Mul", node("Max", square, zero), constant(np.array([[3.0]]))))
    decay = node("Exp", node("Neg", apart))
    kernel = node("Mul", node("Add", apart, constant(np.array([[1.0]]))), decay)
    weights = constant(VARIANCE * process.weights[:, None])
    nodes.append(helper.make_node("MatMul", [kernel, weights], ["rest"]))
    width = len(process.centre)
    graph = helper.make_graph(
        nodes, "process",
        [helper.make_tensor_value_info("features", TensorProto.DOUBLE, [None, width])],
        [helper.make_tensor_value_info("rest", TensorProto.DOUBLE, [None, 1])], constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def check_agreement(raw: bytes, process: Process, rows: Floats) -> float:
    """Largest difference on these rows. Raises BerthError above ``TOLERANCE``."""
    session = onnxruntime.InferenceSession(raw, providers=["CPUExecutionProvider"])
    (said,) = session.run(None, {"features": rows})
    apart = float(np.abs(np.asarray(said).reshape(-1) - process(rows)).max())
    if not apart <= TOLERANCE:
        raise BerthError(
            f"the converted process differs from the fitted one by {apart:.3g}; nothing was written"
        )
    return apart
