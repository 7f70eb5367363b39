"""Read a protocol buffers message from a file without its large fields (a model's weights).

This module uses the standard library only. A large field is read field by field where the schema
says that it is a message, and otherwise skipped unread, so weights cost neither time nor memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeAlias

from berth.pilot.protobuf import Problem, encode_varint, varint
from berth.predictor.graphs.limits import FileLimits

_WINDOW = 64 * 1024
_HEADER = 20
"""Largest size in bytes of a field's key and length together."""
_DEEPEST = 16

Schema: TypeAlias = "Mapping[int, Schema]"
"""The numbers of a message's fields that are messages, each with that message's own schema."""


def skeleton(handle: int, size: int, schema: Schema, limits: FileLimits) -> bytes:
    """Return the encoded message in an open file without its large fields that are no messages.

    Raises Problem where the file is truncated or malformed, or the result exceeds ``limits``.
    """
    return _Skeleton(handle, size, limits).message(0, size, schema, 0)


class _Skeleton:
    def __init__(self, handle: int, size: int, limits: FileLimits) -> None:
        self._handle = handle
        self._left = limits.skeleton_bytes
        self._parts = limits.parts
        self._limits = limits
        self._window = b""
        self._start = 0

    def message(self, at: int, end: int, schema: Schema, depth: int) -> bytes:
        if depth > _DEEPEST:
            raise Problem(f"nests its parts deeper than {_DEEPEST}")
        parts: list[bytes] = []
        run = at
        while at < end:
            start = at
            key, length, at = self._header(at, end)
            if length <= self._limits.part_bytes:
                at += length
                continue
            parts.append(self._copy(run, start))
            inner = schema.get(key >> 3)
            if inner is not None:
                body = self.message(at, at + length, inner, depth + 1)
                parts += [encode_varint(key), encode_varint(len(body)), body]
            at += length
            run = at
        parts.append(self._copy(run, end))
        return b"".join(parts)

    def _header(self, at: int, end: int) -> tuple[int, int, int]:
        """Return a field's key, the number of bytes after its header, and its header's end."""
        self._parts -= 1
        if self._parts < 0:
            raise Problem(f"is made of more than {self._limits.parts} parts")
        place = at - self._start
        if not 0 <= place < len(self._window) - _HEADER:
            self._start, place = at, 0
            self._window = os.pread(self._handle, _WINDOW, at)
        data, before = self._window, place
        try:
            key, place = varint(data, place)
            kind, length = key & 7, 0
            if kind == 2:
                length, place = varint(data, place)
            elif kind == 0:
                _, place = varint(data, place)
            elif kind in (1, 5):
                length = 8 if kind == 1 else 4
            else:
                raise Problem(f"is not an ONNX model (wire type {kind} at byte {at})")
        except IndexError:
            raise Problem("is truncated") from None
        at += place - before
        if at + length > end:
            raise Problem("is truncated or not an ONNX model (a part ends beyond its whole)")
        return key, length, at

    def _copy(self, start: int, end: int) -> bytes:
        self._left -= end - start
        if self._left < 0:
            cap = self._limits.skeleton_bytes >> 20
            raise Problem(f"is larger than {cap} MiB without its weights")
        data = os.pread(self._handle, end - start, start)
        if len(data) < end - start:
            raise Problem("is truncated")
        return data
