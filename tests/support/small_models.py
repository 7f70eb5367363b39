"""Small ONNX models for tests, as bytes. Needs the `onnx` library (a training extra)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from berth.predictor.graphs import infer, onnx_file
from berth.predictor.graphs.child import encode
from berth.predictor.graphs.graph import ModelGraph, decode

OPSET = 20


def constant(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


def integers(name: str, *values: int) -> TensorProto:
    """A constant int64 vector."""
    return numpy_helper.from_array(np.array(values, np.int64), name)


def tensor(name: str, *shape: int | str | None) -> ValueInfoProto:
    """A float input or output."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model(
    nodes: Sequence[NodeProto],
    constants: Sequence[TensorProto] = (),
    inputs: Sequence[ValueInfoProto] = (),
    outputs: Sequence[ValueInfoProto] = (),
    opset: int = OPSET,
) -> ModelProto:
    """A model; by default from x [N, 3, 8, 8] to what the last node makes."""
    graph = helper.make_graph(
        list(nodes),
        "small",
        list(inputs) or [tensor("x", "N", 3, 8, 8)],
        list(outputs) or [helper.make_empty_tensor_value_info(nodes[-1].output[0])],
        list(constants),
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets)


def convolutional(blocks: int = 2, channels: int = 8) -> ModelProto:
    """Convolution, batch normalisation, residual sum, ``blocks`` times; pooling and a layer."""
    nodes = [helper.make_node("Conv", ["x", "stem"], ["b0"], pads=[1, 1, 1, 1])]
    constants = [constant("stem", channels, 3, 3, 3)]
    for n in range(blocks):
        nodes += [
            helper.make_node("Conv", [f"b{n}", f"w{n}"], [f"c{n}"], pads=[1, 1, 1, 1]),
            helper.make_node(
                "BatchNormalization",
                [f"c{n}", f"s{n}", f"o{n}", f"m{n}", f"v{n}"],
                [f"n{n}"],
            ),
            helper.make_node("Relu", [f"n{n}"], [f"r{n}"]),
            helper.make_node("Add", [f"r{n}", f"b{n}"], [f"b{n + 1}"]),
        ]
        constants += [constant(f"w{n}", channels, channels, 3, 3)]
        constants += [constant(f"{kind}{n}", channels) for kind in "somv"]
    nodes += [
        helper.make_node("GlobalAveragePool", [f"b{blocks}"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "head", "bias"], ["y"], transB=1),
    ]
    constants += [constant("head", 10, channels), constant("bias", 10)]
    return model(nodes, constants)


def attention(layers: int = 2, width: int = 16, heads: int = 4) -> ModelProto:
    """Self-attention with residuals over x [N, sequence, width], shapes computed in the graph."""
    nodes, constants = (
        [],
        [integers("split", 0, 0, heads, width // heads), integers("join", 0, 0, width)],
    )
    constants.append(numpy_helper.from_array(np.float32(0.5), "scale"))
    for n in range(layers):
        i, o = f"h{n}" if n else "x", f"h{n + 1}"
        for kind in "qkv":
            constants.append(constant(f"w{kind}{n}", width, width))
            nodes += [
                helper.make_node("MatMul", [i, f"w{kind}{n}"], [f"{kind}{n}"]),
                helper.make_node("Reshape", [f"{kind}{n}", "split"], [f"{kind}r{n}"]),
            ]
        constants.append(constant(f"wo{n}", width, width))
        nodes += [
            helper.make_node("Transpose", [f"qr{n}"], [f"qt{n}"], perm=[0, 2, 1, 3]),
            helper.make_node("Transpose", [f"kr{n}"], [f"kt{n}"], perm=[0, 2, 3, 1]),
            helper.make_node("Transpose", [f"vr{n}"], [f"vt{n}"], perm=[0, 2, 1, 3]),
            helper.make_node("MatMul", [f"qt{n}", f"kt{n}"], [f"s{n}"]),
            helper.make_node("Mul", [f"s{n}", "scale"], [f"ss{n}"]),
            helper.make_node("Softmax", [f"ss{n}"], [f"p{n}"]),
            helper.make_node("MatMul", [f"p{n}", f"vt{n}"], [f"a{n}"]),
            helper.make_node("Transpose", [f"a{n}"], [f"at{n}"], perm=[0, 2, 1, 3]),
            helper.make_node("Reshape", [f"at{n}", "join"], [f"ar{n}"]),
            helper.make_node("MatMul", [f"ar{n}", f"wo{n}"], [f"m{n}"]),
            helper.make_node("Add", [f"m{n}", i], [o]),
        ]
    return model(nodes, constants, [tensor("x", "N", "sequence", width)])


def graph_of(
    made: ModelProto | bytes, batch: int | None = None, sizes: dict[str, int] | None = None
) -> ModelGraph:
    """The graph of a model, read in this process. Raises limits.Problem."""
    data = made if isinstance(made, bytes) else made.SerializeToString()
    handle = os.memfd_create("model")
    try:
        with suppress(BlockingIOError):
            os.write(handle, data)
        return decode(encode(infer.infer(onnx_file.read(handle), batch, sizes)))
    finally:
        os.close(handle)
