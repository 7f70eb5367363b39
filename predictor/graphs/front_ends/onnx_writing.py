"""Write ONNX files without weights, as protobuf messages made here.

Field numbers are those of ``onnx.proto3``; the ``onnx`` library is not needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from berth.pilot.protobuf import encode_varint

FLOAT, INT64 = 1, 7
_INT, _INTS = 2, 7
_OPSET, _IR = 20, 9

Shaped = tuple[str, int, Sequence[int | str]]
"""Name, ONNX type code and shape of an input or output; a named size is open."""


def model(
    nodes: Iterable[bytes], constants: Iterable[bytes], inputs: Sequence[Shaped], output: Shaped
) -> bytes:
    """Return the bytes of an ONNX file."""
    graph = b"".join([
        *(_field(1, one) for one in nodes),
        _field(2, b"berth"),
        *(_field(5, constant) for constant in constants),
        *(_field(11, _value(*one)) for one in inputs),
        _field(12, _value(*output)),
    ])  # fmt: skip
    return b"".join([
        _number(1, _IR), _field(2, b"berth"), _field(7, graph), _field(8, _number(2, _OPSET)),
    ])  # fmt: skip


def node(
    operator: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    **attributes: int | Sequence[int],
) -> bytes:
    """Return an encoded NodeProto; attributes are integers or lists of them."""
    return b"".join([
        *(_field(1, name.encode()) for name in inputs),
        *(_field(2, name.encode()) for name in outputs),
        _field(4, operator.encode()),
        *(_field(5, _attribute(name, value)) for name, value in attributes.items()),
    ])  # fmt: skip


def tensor(name: str, shape: Sequence[int], values: Sequence[int] | None = None) -> bytes:
    """Return an encoded TensorProto: a float tensor without values, or an int64 one with values."""
    return b"".join([
        *(_number(1, side) for side in shape),
        _number(2, FLOAT if values is None else INT64),
        *(_number(7, value) for value in values or ()),
        _field(8, name.encode()),
    ])  # fmt: skip


def _attribute(name: str, value: int | Sequence[int]) -> bytes:
    if isinstance(value, int):
        return _field(1, name.encode()) + _number(3, value) + _number(20, _INT)
    values = b"".join(_number(8, one) for one in value)
    return _field(1, name.encode()) + values + _number(20, _INTS)


def _value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    sides = b"".join(
        _field(1, _number(1, side) if isinstance(side, int) else _field(2, side.encode()))
        for side in shape
    )
    content = _number(1, kind) + _field(2, sides)
    return _field(1, name.encode()) + _field(2, _field(1, content))


def _field(number: int, content: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return encode_varint(number << 3) + encode_varint(value)
