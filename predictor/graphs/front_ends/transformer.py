"""Write a decoder-only transformer of given sizes as an ONNX file without weights.

Users predict a transformer with it before they have a model file. The model has an embedding,
pre-norm layers of attention and a feed-forward network of four times the width (Radford et al.
2019), and an output matrix. Field numbers are those of ``onnx.proto3``; the ``onnx`` library is
not needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from berth.pilot.protobuf import encode_varint

_FLOAT, _INT64 = 1, 7
_INTS = 7
_OPSET, _IR = 20, 9
FEED_FORWARD = 4


def transformer(*, layers: int, width: int, heads: int, vocabulary: int, sequence: int) -> bytes:
    """Return a decoder-only transformer as the bytes of an ONNX file without weights.

    Its input is ``tokens`` [batch, sequence]. ``width`` must be a multiple of ``heads``.
    """
    nodes = [_node("Gather", ["table", "tokens"], ["h0"])]
    constants = [
        _tensor("table", (vocabulary, width)), _tensor("out", (width, vocabulary)),
        _tensor("split", (4,), (0, 0, heads, width // heads)), _tensor("join", (3,), (0, 0, width)),
        _tensor("scale", ()),
    ]  # fmt: skip
    for n in range(layers):
        nodes += _layer(n)
        constants += [_tensor(f"w{kind}{n}", (width, width)) for kind in "qkvo"]
        constants += [_tensor(f"{kind}{n}", (width,)) for kind in ("g1", "b1", "g2", "b2")]
        constants += [_tensor(f"up{n}", (width, FEED_FORWARD * width))]
        constants += [_tensor(f"down{n}", (FEED_FORWARD * width, width))]
    nodes.append(_node("MatMul", [f"h{layers}", "out"], ["logits"]))
    graph = b"".join([
        *(_field(1, node) for node in nodes),
        _field(2, b"transformer"),
        *(_field(5, constant) for constant in constants),
        _field(11, _value("tokens", _INT64, ("batch", sequence))),
        _field(12, _value("logits", _FLOAT, ("batch", sequence, vocabulary))),
    ])  # fmt: skip
    return b"".join([
        _number(1, _IR), _field(2, b"berth"), _field(7, graph), _field(8, _number(2, _OPSET)),
    ])  # fmt: skip


def _layer(n: int) -> list[bytes]:
    nodes = [_node("LayerNormalization", [f"h{n}", f"g1{n}", f"b1{n}"], [f"n{n}"])]
    for kind, order in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
        nodes += [
            _node("MatMul", [f"n{n}", f"w{kind}{n}"], [f"{kind}m{n}"]),
            _node("Reshape", [f"{kind}m{n}", "split"], [f"{kind}r{n}"]),
            _node("Transpose", [f"{kind}r{n}"], [f"{kind}t{n}"], perm=order),
        ]
    nodes += [
        _node("MatMul", [f"qt{n}", f"kt{n}"], [f"s{n}"]),
        _node("Mul", [f"s{n}", "scale"], [f"ss{n}"]),
        _node("Softmax", [f"ss{n}"], [f"p{n}"]),
        _node("MatMul", [f"p{n}", f"vt{n}"], [f"a{n}"]),
        _node("Transpose", [f"a{n}"], [f"at{n}"], perm=(0, 2, 1, 3)),
        _node("Reshape", [f"at{n}", "join"], [f"ar{n}"]),
        _node("MatMul", [f"ar{n}", f"wo{n}"], [f"m{n}"]),
        _node("Add", [f"m{n}", f"h{n}"], [f"x{n}"]),
        _node("LayerNormalization", [f"x{n}", f"g2{n}", f"b2{n}"], [f"y{n}"]),
        _node("MatMul", [f"y{n}", f"up{n}"], [f"u{n}"]),
        _node("Gelu", [f"u{n}"], [f"e{n}"]),
        _node("MatMul", [f"e{n}", f"down{n}"], [f"d{n}"]),
        _node("Add", [f"d{n}", f"x{n}"], [f"h{n + 1}"]),
    ]
    return nodes


def _node(
    operator: str, inputs: Sequence[str], outputs: Sequence[str], **lists: Sequence[int]
) -> bytes:
    return b"".join([
        *(_field(1, name.encode()) for name in inputs),
        *(_field(2, name.encode()) for name in outputs),
        _field(4, operator.encode()),
        *(_field(5, attribute) for attribute in _attributes(lists)),
    ])  # fmt: skip


def _attributes(lists: Mapping[str, Sequence[int]]) -> list[bytes]:
    return [
        _field(1, name.encode()) + b"".join(_number(8, v) for v in values) + _number(20, _INTS)
        for name, values in lists.items()
    ]


def _tensor(name: str, shape: Sequence[int], values: Sequence[int] | None = None) -> bytes:
    """Return an encoded TensorProto: a float tensor without values, or an int64 one with values."""
    return b"".join([
        *(_number(1, side) for side in shape),
        _number(2, _FLOAT if values is None else _INT64),
        *(_number(7, value) for value in values or ()),
        _field(8, name.encode()),
    ])  # fmt: skip


def _value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    sides = b"".join(
        _field(1, _number(1, side) if isinstance(side, int) else _field(2, side.encode()))
        for side in shape
    )
    tensor = _number(1, kind) + _field(2, sides)
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _field(number: int, content: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return encode_varint(number << 3) + encode_varint(value)
