"""A fitted process as ONNX, in double precision, and the proof that both say the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from berth.pilot.errors import BerthError
from berth.predictor.families.language_model.physics import Floats
from berth.predictor.families.language_model.residual import NUMBERS, TIES, Integers
from lab.llm.process import Process

TOLERANCE = 1e-6
"""Largest difference allowed, in log seconds; the project's bar is 1e-4."""
_OPSET = 15


class _Graph:
    """Nodes and constants, each under a fresh name."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Floats | Integers) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name


def to_onnx(process: Process) -> bytes:
    """Inputs ``ties`` (cases x TIES, int64) and ``numbers`` (cases x NUMBERS, double)."""
    g = _Graph()
    masks: dict[int, str] = {}

    def same(column: int) -> str:
        if column not in masks:
            index = g.constant(np.array([column], dtype=np.int64))
            mine = g.node("Gather", "ties", index, axis=1)
            theirs = process.ties[:, column].copy()
            theirs[theirs < 0] = np.iinfo(np.int64).min  # unknown is like nothing
            masks[column] = g.node("Equal", mine, g.constant(theirs[None, :]))
        return masks[column]

    total = ""
    for term in process.terms:
        columns = np.array(term.numbers, dtype=np.int64)
        scale = 1 / np.array(term.lengths)
        theirs = process.numbers[:, columns] * scale
        used = g.node("Gather", "numbers", g.constant(columns), axis=1)
        mine = g.node("Mul", used, g.constant(scale))
        cross = g.node("MatMul", mine, g.constant(theirs.T))
        square = g.node("ReduceSumSquare", mine, axes=[1], keepdims=1)
        half = g.node("Mul", square, g.constant(np.array([[0.5]])))
        fixed = np.log(term.variance) - 0.5 * (theirs * theirs).sum(axis=1)[None, :]
        power = g.node("Add", g.node("Sub", cross, half), g.constant(fixed))
        each = g.node("Exp", power)
        mask = ""
        for column in term.ties:
            mask = g.node("And", mask, same(column)) if mask else same(column)
        if mask:
            each = g.node("Mul", each, g.node("Cast", mask, to=TensorProto.DOUBLE))
        total = g.node("Add", total, each) if total else each
    sums = g.node("MatMul", total, g.constant(process.weights[:, None]))
    g.nodes.append(
        helper.make_node("Add", [sums, g.constant(np.array([[process.mean]]))], ["residual"])
    )
    graph = helper.make_graph(
        g.nodes,
        "residual",
        [
            helper.make_tensor_value_info("ties", TensorProto.INT64, [None, len(TIES)]),
            helper.make_tensor_value_info("numbers", TensorProto.DOUBLE, [None, len(NUMBERS)]),
        ],
        [helper.make_tensor_value_info("residual", TensorProto.DOUBLE, [None, 1])],
        g.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def check_agreement(raw: bytes, process: Process, ties: Integers, numbers: Floats) -> float:
    """Largest difference on these cases, known and made unknown. Raises BerthError above bar."""
    strangers = ties.copy()
    strangers[:, : len(TIES) // 2] = -1
    session = onnxruntime.InferenceSession(raw, providers=["CPUExecutionProvider"])
    apart = 0.0
    for tied in (ties, strangers):
        (said,) = session.run(None, {"ties": tied, "numbers": numbers})
        apart = max(apart, float(np.abs(said.reshape(-1) - process(tied, numbers)).max()))
    if not apart <= TOLERANCE:
        raise BerthError(
            f"the converted process differs from the fitted one by {apart:.3g}; nothing was written"
        )
    return apart
