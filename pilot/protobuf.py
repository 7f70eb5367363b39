"""Protocol buffers on the wire: the fields of a message (protobuf.dev/programming-guides/encoding).

Standard library only: the unprivileged child that parses users' models imports this.
"""

from __future__ import annotations

import mmap
from typing import TypeAlias

Field: TypeAlias = tuple[int, int, int]
"""Number, then start and end in the data; for a varint its value and -1."""


class Problem(Exception):
    """The reason why a model is refused: one sentence without its subject, and what to do."""

    def __init__(self, problem: str, hint: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


def scan(data: bytes | mmap.mmap, at: int, end: int) -> list[Field]:
    """Return the fields of the message at ``data[at:end]``.

    Raises Problem or IndexError (truncated).
    """
    fields: list[Field] = []
    add = fields.append
    while at < end:
        key = data[at]
        at += 1
        if key > 127:
            key, at = varint(data, at - 1)
        kind = key & 7
        if kind == 2:
            length = data[at]
            at += 1
            if length > 127:
                length, at = varint(data, at - 1)
            stop = at + length
            if stop > end:
                raise Problem("is truncated or not an ONNX model (a part ends beyond its whole)")
            add((key >> 3, at, stop))
            at = stop
        elif kind == 0:
            value = data[at]
            at += 1
            if value > 127:
                value, at = varint(data, at - 1)
            add((key >> 3, value, -1))
        elif kind in (1, 5):
            stop = at + (8 if kind == 1 else 4)
            if stop > end:
                raise Problem("is truncated")
            add((key >> 3, at, stop))
            at = stop
        else:
            raise Problem(f"is not an ONNX model (wire type {kind} at byte {at})")
    return fields


def varint(data: bytes | mmap.mmap, at: int) -> tuple[int, int]:
    """Read an unsigned number of up to ten bytes; return it and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
        if shift > 63:
            raise Problem(f"is not an ONNX model (an endless number at byte {at})")


def signed(value: int) -> int:
    """Return a varint as int64."""
    return value - (1 << 64) if value >> 63 else value


def encode_varint(value: int) -> bytes:
    """Encode an unsigned number as varint."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)
