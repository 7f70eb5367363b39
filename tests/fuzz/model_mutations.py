"""Small sound models as ONNX files, changes to their bytes or parts, and what the reader makes of
them in this process."""

from __future__ import annotations

import os
import random
from dataclasses import replace

from onnx import AttributeProto, ModelProto, helper
from small_models import attention, constant, convolutional, integers, model, tensor

from berth.predictor.graphs import infer, onnx_file
from berth.predictor.graphs.child import encode
from berth.predictor.graphs.graph import ModelGraph, decode
from berth.predictor.graphs.limits import LIMITS
from berth.predictor.graphs.operators import CATALOGUE

EXTREMES = (
    0, 1, -1, 2, 127, 128, 2**15, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63),
)  # fmt: skip
SIZES = {"sequence": 4}


def sizes_in(data: bytes) -> dict[str, int]:
    """The sizes of dimensions that the file names: a size that it does not name is refused."""
    return {name: size for name, size in SIZES.items() if name.encode() in data}


IN_PARTS = replace(LIMITS, whole_bytes=0, part_bytes=64)
"""Small files read as large ones are."""


def seeds() -> list[bytes]:
    """Sound models that between them hold most operators of the catalogue."""
    found = [convolutional(blocks=1), attention(layers=1), function_model(), many_operators()]
    found.append(branching())
    return [made.SerializeToString() for made in found]


def function_model() -> ModelProto:
    """A model with an operator of its own."""
    body = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Add", ["a", "b"], ["c"])]
    made = model([helper.make_node("Own", ["x"], ["y"], domain="own")])
    opsets = [helper.make_opsetid("", 20)]
    made.functions.append(helper.make_function("own", "Own", ["a"], ["c"], body, opsets))
    return made


def branching() -> ModelProto:
    """A branch that the shapes choose."""
    branches = {
        key: helper.make_graph(
            [helper.make_node("Tanh", ["x"], [key])], key, [], [tensor(key)], [constant("w", 3)]
        )
        for key in ("then_branch", "else_branch")
    }
    return model(
        [
            helper.make_node("Size", ["x"], ["s"]),
            helper.make_node("Cast", ["s"], ["c"], to=9),
            helper.make_node("If", ["c"], ["y"], **branches),
        ]
    )


def many_operators() -> ModelProto:
    """Shape arithmetic, windows, pieces and joins."""
    return model(
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Slice", ["s", "zero", "two"], ["head"]),
            helper.make_node("Concat", ["head", "rest"], ["to"], axis=0),
            helper.make_node("Pad", ["x", "pads"], ["p"]),
            helper.make_node("MaxPool", ["p"], ["m"], kernel_shape=[3, 3], strides=[1, 1]),
            helper.make_node("Split", ["m", "parts"], ["a", "b"], axis=2),
            helper.make_node("Concat", ["a", "b"], ["j"], axis=2),
            helper.make_node("Resize", ["j", "", "scales"], ["r"], mode="linear"),
            helper.make_node("AveragePool", ["r"], ["v"], kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("Reshape", ["v", "to"], ["f"]),
            helper.make_node("Expand", ["f", "wide"], ["e"]),
            helper.make_node("ReduceMean", ["e", "zero"], ["d"], keepdims=0),
            helper.make_node("Einsum", ["d", "w"], ["h"], equation="bck,kn->bcn"),
            helper.make_node("TopK", ["h", "two"], ["t", "i"]),
            helper.make_node("Tile", ["t", "twice"], ["y"]),
        ],
        [
            integers("zero", 0), integers("two", 2), integers("rest", -1), constant("w", 64, 5),
            integers("pads", 0, 0, 1, 1, 0, 0, 1, 1), integers("parts", 3, 5),
            helper.make_tensor("scales", 1, [4], [1.0, 1.0, 2.0, 2.0]),
            integers("wide", 2, 1, 3, 64), integers("twice", 1, 1, 2),
        ],
    )  # fmt: skip


def broken_bytes(data: bytes, dice: random.Random) -> bytes:
    """Bits, numbers, cuts, repeats; of any file."""
    raw = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4, 16))):
        at = dice.randrange(len(raw) + 1)
        kind = dice.randrange(5)
        if kind == 0 and at < len(raw):
            raw[at] ^= 1 << dice.randrange(8)
        elif kind == 1 and at < len(raw):
            raw[at] = dice.choice((0, 1, 127, 128, 255))
        elif kind == 2:
            raw = raw[:at]
        elif kind == 3:
            end = min(at + dice.randrange(64), len(raw))
            raw[at:at] = raw[at:end] * dice.choice((1, 2, 50))
        else:
            raw[at:at] = dice.randbytes(dice.randrange(1, 12))
        if not raw:
            break
    return bytes(raw)


def broken_parts(data: bytes, dice: random.Random) -> bytes:  # noqa: PLR0912 - one branch a mutation
    """Dimensions, names, attributes and nodes of a sound model."""
    made = ModelProto.FromString(data)
    graph = made.graph
    for _ in range(dice.choice((1, 1, 2, 5))):
        node = dice.choice(graph.node)
        kind = dice.randrange(9)
        if kind == 0 and graph.initializer:
            tensor = dice.choice(graph.initializer)
            if tensor.dims:
                tensor.dims[dice.randrange(len(tensor.dims))] = dice.choice(EXTREMES)
        elif kind == 1 and graph.initializer:
            dice.choice(graph.initializer).data_type = dice.randrange(30)
        elif kind == 2 and node.input:
            other = dice.choice(graph.node)
            names = [*other.input, *other.output, "nowhere", ""]
            node.input[dice.randrange(len(node.input))] = dice.choice(names)
        elif kind == 3:
            node.op_type = dice.choice([*CATALOGUE, "Loop", "Nonsense"]).rpartition(":")[2]
            node.domain = dice.choice(("", "", "com.microsoft"))
        elif kind == 4 and node.attribute:
            _attribute(dice.choice(node.attribute), dice)
        elif kind == 5:
            tensor = dice.choice(graph.initializer or [None])
            if tensor is not None and tensor.data_type == 7:
                count = len(tensor.raw_data) // 8
                values = [dice.choice(EXTREMES) for _ in range(count)]
                tensor.raw_data = b"".join(v.to_bytes(8, "little", signed=True) for v in values)
        elif kind == 6:
            name = dice.choice(("axis", "perm", "kernel_shape", "group", "num_heads", "to", "pads"))
            value = [dice.choice(EXTREMES) for _ in range(dice.randrange(1, 5))]
            single = name in ("axis", "group", "num_heads", "to")
            node.attribute.append(helper.make_attribute(name, value[0] if single else value))
        elif kind == 7:
            size = dice.choice(graph.input).type.tensor_type.shape.dim
            if size:
                size[dice.randrange(len(size))].dim_value = dice.choice(EXTREMES)
        else:
            nodes = list(graph.node)
            dice.shuffle(nodes)
            del graph.node[:]
            graph.node.extend(nodes[: dice.randrange(1, len(nodes) + 1)])
    return made.SerializeToString()


def _attribute(attribute: AttributeProto, dice: random.Random) -> None:
    if attribute.ints:
        attribute.ints[dice.randrange(len(attribute.ints))] = dice.choice(EXTREMES)
    elif attribute.type == AttributeProto.INT:
        attribute.i = dice.choice(EXTREMES)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = dice.choice((b"", b"...,...->...", b"SAME_UPPER", b"\xff\x00", b"a" * 9000))
    else:
        attribute.type = dice.randrange(15)


def decoded(data: bytes, batch: int) -> ModelGraph:
    """What the child makes of the bytes, in this process. Raises Problem."""
    handle = os.memfd_create("model")
    try:
        os.write(handle, data)
        limits = LIMITS if batch % 2 else IN_PARTS
        return decode(encode(infer.infer(onnx_file.read(handle, limits), batch, sizes_in(data))))
    finally:
        os.close(handle)
