"""Read the fields of encoded protocol buffers messages.

The encoding is described at protobuf.dev/programming-guides/encoding. This module uses the standard
library only, because the unprivileged child that parses users' models imports it.
"""

from __future__ import annotations

import mmap
from typing import TypeAlias

Field: TypeAlias = tuple[int, int, int]
"""A field: number, start and end in the data; for a varint: number, value and -1."""


class Problem(Exception):
    """Raised where a model is refused, with the reason (a sentence without subject) and a hint."""

    def __init__(self, problem: str, hint: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


def scan(data: bytes | mmap.mmap, at: int, end: int) -> list[Field]:
    """Return the fields of the protocol buffers message at ``data[at:end]``.

    Raises Problem for a malformed message, IndexError for a truncated one.
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
    """Return the unsigned varint at a position in the data, and the position after it.

    Raises Problem for more than ten bytes, IndexError for truncated data.
    """
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
    """Return an unsigned 64-bit varint as a signed 64-bit integer."""
    return value - (1 << 64) if value >> 63 else value


def encode_varint(value: int) -> bytes:
    """Return the protocol buffers encoding (varint) of an unsigned number."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)
