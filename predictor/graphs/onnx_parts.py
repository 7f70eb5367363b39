"""Read constants (TensorProto) and attributes (AttributeProto) of an ONNX file.

This module uses the standard library only. A constant's values are read only where it has at most
``limits.KNOWN_VALUES`` elements and stores them in the file itself.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import TypeAlias

from berth.pilot import protobuf
from berth.pilot.protobuf import Problem
from berth.predictor.graphs.limits import KNOWN_VALUES
from berth.predictor.graphs.values import BFLOAT16, BOOL, FLOAT, Tensor, Values, checked

Attribute: TypeAlias = (
    "int | float | bytes | tuple[int, ...] | tuple[float, ...] | tuple[bytes, ...] | Tensor | None"
)
Attributes: TypeAlias = dict[str, Attribute]


_TEXTS: dict[bytes, str] = {}


def printable(raw: bytes) -> str:
    """Return a name as text of at most 128 characters, control characters escaped."""
    decoded = raw[:512].decode("utf-8", "replace")[:128]
    return decoded if decoded.isprintable() else repr(decoded)[1:-1][:128]


def text(raw: bytes) -> str:
    """Return a name from the file as printable text; decoded names are cached."""
    decoded = _TEXTS.get(raw)
    if decoded is None:
        decoded = printable(raw)
        if len(_TEXTS) < 4096:
            _TEXTS[raw] = decoded
    return decoded


def integers(data: bytes, start: int, end: int) -> list[int]:
    """Return the integers of a protobuf field: one varint, or several packed ones."""
    if end < 0:
        return [protobuf.signed(start)]
    numbers = []
    while start < end:
        value, start = protobuf.varint(data, start)
        numbers.append(protobuf.signed(value))
    return numbers


_FORMATS = {
    1: "f", 2: "B", 3: "b", 4: "H", 5: "h", 6: "i", 7: "q", 9: "?", 10: "e", 11: "d", 12: "I",
    13: "Q", 16: "H",
}  # fmt: skip
_FLOAT_DATA, _INT32_DATA, _INT64_DATA, _RAW, _DOUBLE_DATA, _UINT64_DATA = 4, 5, 7, 9, 10, 11
_LOCATION, _EXTERNAL = 14, 1


def read_tensor(data: bytes, start: int, end: int) -> tuple[bytes, Tensor]:
    """Return the name and the Tensor of a TensorProto.

    Values are set only where there are at most ``KNOWN_VALUES`` and the file holds them.
    """
    name, dtype, dims = b"", FLOAT, []
    parts: list[protobuf.Field] = []
    for part in protobuf.scan(data, start, end):
        number, a, b = part
        if number == 1:
            dims += integers(data, a, b)
        elif number == 2 and b < 0:
            dtype = a
        elif number == 8 and b >= 0:
            name = data[a:b]
        else:
            parts.append(part)
    shape = checked(dims, "a constant")
    count = math.prod(shape)
    values = _values(data, parts, dtype, count) if count <= KNOWN_VALUES else None
    return name, Tensor(dtype, shape, values, count)


def _values(data: bytes, parts: Sequence[protobuf.Field], dtype: int, count: int) -> Values | None:
    form = _FORMATS.get(dtype)
    if form is None:
        return None
    numbers: list[float] = []
    for number, a, b in parts:
        if number == _LOCATION and b < 0 and a == _EXTERNAL:
            return None
        if number == _RAW and b >= 0:
            whole = b - a == count * struct.calcsize(form)
            numbers = list(struct.unpack(f"<{count}{form}", data[a:b])) if whole else []
        elif number in (_INT32_DATA, _INT64_DATA, _UINT64_DATA):
            numbers += integers(data, a, b)
        elif number in (_FLOAT_DATA, _DOUBLE_DATA) and b >= 0:
            width, kind = (4, "f") if number == _FLOAT_DATA else (8, "d")
            numbers += struct.unpack(f"<{(b - a) // width}{kind}", data[a : b - (b - a) % width])
        if len(numbers) > count:
            return None
    if dtype == BFLOAT16:
        numbers = [struct.unpack("<f", struct.pack("<I", int(n) << 16))[0] for n in numbers]
    if dtype == BOOL:
        numbers = [int(bool(value)) for value in numbers]
    return tuple(numbers) if len(numbers) == count else None


_TYPE = 20
_REFERENCE = 21


def attribute(data: bytes) -> tuple[str, Attribute, str]:
    """Return name, value and reference of an encoded attribute.

    The reference is the name of the enclosing function's attribute whose value it takes, else ''.
    Raises Problem for a malformed attribute.
    """
    try:
        return _attribute(data)
    except (IndexError, struct.error):
        raise Problem("has a malformed attribute") from None


def _attribute(data: bytes) -> tuple[str, Attribute, str]:
    name, kind, reference = "", 0, ""
    spans: dict[int, list[tuple[int, int]]] = {}
    for number, a, b in protobuf.scan(data, 0, len(data)):
        if number == 1 and b >= 0:
            name = text(data[a:b])
        elif number == _TYPE and b < 0:
            kind = a
        elif number == _REFERENCE and b >= 0:
            reference = text(data[a:b])
        else:
            spans.setdefault(number, []).append((a, b))
    return name, _attribute_value(data, kind, spans), reference


def _attribute_value(data: bytes, kind: int, spans: dict[int, list[tuple[int, int]]]) -> Attribute:
    # AttributeProto.AttributeType to the field that holds the value; FLOATS 6, INTS 7, STRINGS 8.
    fields = {1: 2, 2: 3, 3: 4, 4: 5, 6: 7, 7: 8, 8: 9}
    number = fields.get(kind) or (next(iter(spans), 0) if kind == 0 else 0)
    parts = spans.get(number, [])
    value: Attribute = None
    if number == 2:
        value = struct.unpack("<f", data[parts[-1][0] : parts[-1][1]])[0] if parts else 0.0
    elif number == 3:
        value = protobuf.signed(parts[-1][0]) if parts else 0
    elif number == 4:
        value = data[parts[-1][0] : parts[-1][1]][:4096] if parts else b""
    elif number == 5 and parts:
        value = read_tensor(data, *parts[-1])[1]
    elif number == 7:
        value = tuple(
            x
            for a, b in parts
            for x in struct.unpack(f"<{(b - a) // 4}f", data[a : b - (b - a) % 4])
        )
    elif number == 8:
        value = tuple(x for a, b in parts for x in integers(data, a, b))
    elif number == 9:
        value = tuple(data[a:b][:4096] for a, b in parts)
    return value


def attributes(encoded: Sequence[bytes]) -> Attributes:
    """Return the values of a node's encoded attributes by name. Raises Problem."""
    return {name: value for name, value, _ in map(attribute, encoded)}


def shown(name: bytes) -> str:
    """Return a tensor's name quoted for an error message, at most 60 characters."""
    return repr(name.decode("utf-8", "replace")[:60])
