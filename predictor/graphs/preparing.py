"""Prepare an ONNX graph for shape inference.

Functions are replaced by their nodes, nodes are sorted topologically, and open dimensions of the
inputs get sizes. This module uses the standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from berth.pilot import protobuf
from berth.pilot.protobuf import Problem
from berth.pilot.units import whole_number
from berth.predictor.graphs.limits import FileLimits
from berth.predictor.graphs.onnx_file import Function, Input, OnnxNode, RawModel
from berth.predictor.graphs.onnx_parts import attribute, printable, shown
from berth.predictor.graphs.values import Tensor, checked

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})


def flattened(model: RawModel, limits: FileLimits) -> list[OnnxNode]:
    """Return the nodes with calls of the model's functions replaced by the functions' nodes.

    Raises Problem for more nodes or deeper calls than ``limits`` allow.
    """
    if not model.functions:
        return model.nodes
    return list(_inlined(model.nodes, model.functions, limits))


def _inlined(
    nodes: list[OnnxNode], functions: dict[tuple[str, str], Function], limits: FileLimits
) -> Iterator[OnnxNode]:
    met = 0
    stack = [iter(nodes)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            continue
        met += 1
        if met > limits.nodes:
            raise Problem(f"has more than {limits.nodes} nodes with its functions in place")
        function = functions.get((node.domain, node.operator))
        if function is None:
            yield node
            continue
        if len(stack) > limits.depth:
            raise Problem(f"has functions that call each other deeper than {limits.depth}")
        stack.append(iter(_body(node, function, met)))


def _body(node: OnnxNode, function: Function, number: int) -> list[OnnxNode]:
    names = dict(zip(function.inputs, node.inputs, strict=False))
    names |= dict.fromkeys(function.inputs[len(node.inputs) :], b"")
    names |= {
        inner: outer for inner, outer in zip(function.outputs, node.outputs, strict=False) if outer
    }
    prefix = b"\x00%d\x00" % number
    arguments = {attribute(raw)[0]: raw for raw in (*function.defaults, *node.attributes)}

    def own(name: bytes) -> bytes:
        return names.get(name, prefix + name) if name else name

    return [
        OnnxNode(
            inner.operator,
            inner.domain,
            tuple(own(name) for name in inner.inputs),
            tuple(own(name) for name in inner.outputs),
            tuple(
                resolved
                for raw in inner.attributes
                if (resolved := _resolved(raw, arguments)) is not None
            ),
        )
        for inner in function.nodes
    ]


def _resolved(raw: bytes, arguments: dict[str, bytes]) -> bytes | None:
    """Return an encoded attribute with a reference to the call's attribute resolved.

    None where the call does not set the attribute that is referred to.
    """
    name, _, reference = attribute(raw)
    if not reference:
        return raw
    source = arguments.get(reference)
    if source is None:
        return None
    own = name.encode()
    return b"\x0a" + protobuf.encode_varint(len(own)) + own + b"".join(_without_name(source))


def _without_name(data: bytes) -> list[bytes]:
    fields, at = [], 0
    while at < len(data):
        start = at
        key, at = protobuf.varint(data, at)
        kind = key & 7
        if kind == 2:
            length, at = protobuf.varint(data, at)
            at += length
        elif kind == 0:
            _, at = protobuf.varint(data, at)
        else:
            at += 8 if kind == 1 else 4
        if key >> 3 != 1:
            fields.append(data[start:at])
    return fields


def sorted_nodes(nodes: list[OnnxNode], known: Iterable[bytes]) -> list[OnnxNode]:
    """Return the nodes in topological order. Raises Problem on a cycle.

    ``known`` are the names of tensors that exist before the first node runs.
    """
    available = set(known)
    makers = {name: place for place, node in enumerate(nodes) for name in node.outputs if name}
    waiting: list[set[int]] = []
    readers: dict[int, list[int]] = {}
    for place, node in enumerate(nodes):
        before = {makers[name] for name in node.inputs if name in makers and name not in available}
        waiting.append(before)
        for other in before:
            readers.setdefault(other, []).append(place)
    ready = [place for place, before in enumerate(waiting) if not before]
    in_order = []
    for place in ready:
        in_order.append(nodes[place])
        for reader in readers.get(place, ()):
            waiting[reader].discard(place)
            if not waiting[reader]:
                ready.append(reader)
    if len(in_order) < len(nodes):
        stuck = next(place for place, before in enumerate(waiting) if before)
        raise Problem(f"is cyclic (node {stuck}, {nodes[stuck].operator}, waits for itself)")
    return in_order


_BATCH = re.compile(r"(?i)batch\w*")
_WORD = re.compile(r"[A-Za-z_][\w.]*|\d+|[+\-*]")


def bind(
    inputs: Sequence[Input], batch: int | None, sizes: Mapping[str, int]
) -> tuple[dict[bytes, Tensor], int]:
    """Return each input by name with all its sizes set, and the batch size.

    The batch is a dimension named ``batch...``, else the open first dimension, by default 1. A
    graph whose first dimension is a number has that fixed batch. ``sizes`` are by the name of a
    dimension; of a dimension without a name by its axis (``"2"``: in all inputs) or by input and
    axis (``"images:2"``). Raises Problem for a dimension that stays open, for a size that no
    dimension takes, and for a ``batch`` that differs from the fixed one.
    """
    _check_taken(inputs, sizes)
    known = dict(sizes)
    place = _batch_place(inputs, sizes)
    fixed, name = 1 if place is None else _set_size(*place, sizes), ""
    if fixed is None and place is not None:
        name = str(_spelt(place[2]))
    elif batch not in (None, fixed):
        raise Problem(
            f"has its batch fixed at {fixed}, so batch {batch} cannot be predicted",
            "export it with a dynamic batch dimension, and set it by --batch alone",
        )
    batch = fixed or batch or 1
    if name:
        known[name] = batch
    bound = {}
    for port in inputs:
        if port.shape is None:
            raise Problem(f"does not say which shape its input {shown(port.name)} has")
        shape = [_size(port, axis, size, known, batch) for axis, size in enumerate(port.shape)]
        bound[port.name] = Tensor(port.dtype, checked(shape, f"input {shown(port.name)}"))
    return bound, batch


def _batch_place(
    inputs: Sequence[Input], sizes: Mapping[str, int]
) -> tuple[Input, int, int | str] | None:
    """Return the input, axis and size of the batch: of a dimension named ``batch...`` (recurrent
    layers have it second), else of the first dimension that is open, else of the first; None where
    no input has a dimension."""
    places = [(port, axis, size) for port in inputs for axis, size in enumerate(port.shape or ())]
    named = [p for p in places if isinstance(p[2], str) and _BATCH.fullmatch(p[2])]
    first = [p for p in places if p[1] == 0]
    still_open = [p for p in first if _set_size(*p, sizes) is None]
    return next(iter((*named, *still_open, *first)), None)


def _spelt(size: int | str) -> int | str:
    """Return a dimension as it counts: exporters also write -1, 0 and ``?`` for an open one."""
    if isinstance(size, int):
        return "" if size <= 0 else size
    return size if any(letter.isalnum() for letter in size) else ""


def _positions(port: Input, axis: int) -> tuple[str, str]:
    return f"{printable(port.name)}:{axis}", str(axis)


def _set_size(port: Input, axis: int, size: int | str, sizes: Mapping[str, int]) -> int | None:
    """Return a dimension's own size, or the one that ``sizes`` sets it to; None: it is open."""
    size = _spelt(size)
    if isinstance(size, int):
        return size
    keys = (size,) if size else _positions(port, axis)
    return next((sizes[key] for key in keys if key in sizes), None)


def _check_taken(inputs: Sequence[Input], sizes: Mapping[str, int]) -> None:
    """Raise Problem, which lists the open dimensions, for a size that no dimension takes."""
    names: dict[str, None] = {}
    taken: set[str] = set()
    for port in inputs:
        for axis, size in enumerate(port.shape or ()):
            spelt = _spelt(size)
            if isinstance(spelt, int):
                continue
            words = [word for word in _WORD.findall(spelt) if word[0].isalpha() or word[0] == "_"]
            names |= dict.fromkeys(words if spelt else _positions(port, axis)[:1])
            taken.update((spelt, *words) if spelt else _positions(port, axis))
    stray = next((key for key in sizes if key not in taken), None)
    if stray is not None:
        there = ", ".join([*names][:20])
        raise Problem(
            f"has no open dimension {stray!r}", f"open are: {there}" if there else "none is open"
        )


def _size(port: Input, axis: int, size: int | str, known: Mapping[str, int], batch: int) -> int:
    set_size = _set_size(port, axis, size, known)
    if set_size is not None:
        return set_size
    size = str(_spelt(size))
    if not size and axis == 0:
        return batch
    total = _sum(size, known)
    if total is None:
        where = f"dimension {size!r}" if size else f"unnamed dimension {axis}"
        raise Problem(
            f"leaves the {where} of input {shown(port.name)} open",
            f"give it, for example: --dim {_open_name(size, known)}=16"
            if size
            else f"give it by its position, --dim {_positions(port, axis)[0]}=640",
        )
    return total


def _open_name(text: str, known: Mapping[str, int]) -> str:
    """Return the first name without a known size in a dimension such as ``32*h32``: ``h32``."""
    words = (w for w in _WORD.findall(text) if not w[0].isdigit() and w not in "+-*")
    return next((w for w in words if w not in known), text)


def _sum(text: str, known: Mapping[str, int]) -> int | None:
    """Return the value of a dimension such as ``past + sequence`` or ``32*h``.

    None where the text is not a sum of products of numbers and known names.
    """
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
