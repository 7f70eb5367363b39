"""Binding a graph's open dimensions: the batch, and others by name.

Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from berth.pilot.units import whole_number
from berth.predictor.graphs.limits import Problem
from berth.predictor.graphs.onnx_file import Input
from berth.predictor.graphs.onnx_parts import shown
from berth.predictor.graphs.values import Tensor, checked

_WORD = re.compile(r"[A-Za-z_][\w.]*|\d+|[+\-*]")


def bind(
    inputs: Sequence[Input], batch: int | None, sizes: Mapping[str, int]
) -> tuple[dict[bytes, Tensor], int]:
    """Each input with its dimensions bound, and the batch.

    The batch is the open first dimension of the inputs; it is 1 where none is asked for. A graph
    without one has a fixed batch, its first input's. Raises Problem for a dimension that stays
    open, and for another batch than the fixed one.
    """
    name = _batch_name(inputs, sizes)
    if name is None:
        fixed = next((i.shape[0] for i in inputs if i.shape), 1)
        if isinstance(fixed, int) and batch is not None and fixed != batch:
            raise Problem(
                f"has its batch fixed at {fixed}, so batch {batch} cannot be predicted",
                "export it with a dynamic batch dimension",
            )
        batch = fixed if isinstance(fixed, int) else 1
    batch = 1 if batch is None else batch
    known = dict(sizes)
    if name:
        known[name] = batch
    bound = {}
    for given in inputs:
        if given.shape is None:
            raise Problem(f"does not say which shape its input {shown(given.name)} has")
        shape = [_size(given, axis, size, known, batch) for axis, size in enumerate(given.shape)]
        bound[given.name] = Tensor(given.dtype, checked(shape, f"input {shown(given.name)}"))
    return bound, batch


def _batch_name(inputs: Sequence[Input], sizes: Mapping[str, int]) -> str | None:
    """The open first dimension's name, "" for an unnamed one, None where it is fixed."""
    for given in inputs:
        if given.shape:
            first = given.shape[0]
            if isinstance(first, str) and first not in sizes:
                return first
            if isinstance(first, int) and first <= 0:
                return ""
    return None


def _size(given: Input, axis: int, size: int | str, known: Mapping[str, int], batch: int) -> int:
    if isinstance(size, int):
        if size > 0:
            return size
        size = ""
    if size in known:
        return known[size]
    if not size and axis == 0:
        return batch
    found = _sum(size, known)
    if found is None:
        where = f"dimension {size!r}" if size else f"unnamed dimension {axis}"
        raise Problem(
            f"leaves the {where} of input {shown(given.name)} open",
            f"give it, for example: --dim {_open_name(size, known)}=16"
            if size
            else "export it with a name or a size",
        )
    return found


def _open_name(text: str, known: Mapping[str, int]) -> str:
    """The first name in a dimension's text that has no size: ``h32`` of ``32*h32``."""
    words = (w for w in _WORD.findall(text) if not w[0].isdigit() and w not in "+-*")
    return next((w for w in words if w not in known), text)


def _sum(text: str, known: Mapping[str, int]) -> int | None:
    """A sum or product of known names and numbers, such as ``past + sequence``."""
    words = _WORD.findall(text)
    if not words or "".join(words) != text.replace(" ", "") or len(words) > 16:
        return None
    total, term, sign, expect = 0, 1, 1, True
    for word in words:
        if word in "+-*":
            if expect:
                return None
            if word != "*":
                total += sign * term
                sign, term = (1 if word == "+" else -1), 1
            expect = True
            continue
        if not expect:
            return None
        value = whole_number(word) if word[0].isdigit() else known.get(word)
        if value is None or value > 2**40:
            return None
        term *= value
        expect = False
    return None if expect else total + sign * term
