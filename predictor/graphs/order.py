"""A graph's nodes in an order in which they can run, with functions put in place.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from berth.predictor.graphs import wire
from berth.predictor.graphs.limits import Limits, Problem
from berth.predictor.graphs.onnx_file import Function, Node, RawModel
from berth.predictor.graphs.onnx_parts import attribute

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})


def flattened(model: RawModel, limits: Limits) -> list[Node]:
    """The nodes with the model's own functions replaced by their bodies."""
    if not model.functions:
        return model.nodes
    return list(_inlined(model.nodes, model.functions, limits))


def _inlined(
    nodes: list[Node], functions: dict[tuple[str, str], Function], limits: Limits
) -> Iterator[Node]:
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


def _body(node: Node, function: Function, number: int) -> list[Node]:
    """A call's nodes: names made its own, the call's attributes put in."""
    names = dict(zip(function.inputs, node.inputs, strict=False))
    names |= dict.fromkeys(function.inputs[len(node.inputs) :], b"")
    names |= {
        inner: outer for inner, outer in zip(function.outputs, node.outputs, strict=False) if outer
    }
    prefix = b"\x00%d\x00" % number
    given = {attribute(raw)[0]: raw for raw in (*function.defaults, *node.attributes)}

    def own(name: bytes) -> bytes:
        return names.get(name, prefix + name) if name else name

    return [
        Node(
            inner.operator,
            inner.domain,
            tuple(own(name) for name in inner.inputs),
            tuple(own(name) for name in inner.outputs),
            tuple(kept for raw in inner.attributes if (kept := _resolved(raw, given)) is not None),
        )
        for inner in function.nodes
    ]


def _resolved(raw: bytes, given: dict[str, bytes]) -> bytes | None:
    """An attribute, or the call's that it refers to under its own name; None where not given."""
    name, _, reference = attribute(raw)
    if not reference:
        return raw
    source = given.get(reference)
    if source is None:
        return None
    own = name.encode()
    return b"\x0a" + wire.encode_varint(len(own)) + own + b"".join(_without_name(source))


def _without_name(data: bytes) -> list[bytes]:
    """An encoded attribute's fields but its name, each with its header."""
    found, at = [], 0
    while at < len(data):
        start = at
        key, at = wire.varint(data, at)
        kind = key & 7
        if kind == 2:
            length, at = wire.varint(data, at)
            at += length
        elif kind == 0:
            _, at = wire.varint(data, at)
        else:
            at += 8 if kind == 1 else 4
        if key >> 3 != 1:
            found.append(data[start:at])
    return found


def sorted_nodes(nodes: list[Node], known: Iterable[bytes]) -> list[Node]:
    """The nodes so that each comes after what it reads. Raises Problem on a cycle."""
    made = set(known)
    makers = {name: place for place, node in enumerate(nodes) for name in node.outputs if name}
    waiting: list[set[int]] = []
    readers: dict[int, list[int]] = {}
    for place, node in enumerate(nodes):
        before = {makers[name] for name in node.inputs if name in makers and name not in made}
        waiting.append(before)
        for other in before:
            readers.setdefault(other, []).append(place)
    ready = [place for place, before in enumerate(waiting) if not before]
    found = []
    for place in ready:
        found.append(nodes[place])
        for reader in readers.get(place, ()):
            waiting[reader].discard(place)
            if not waiting[reader]:
                ready.append(reader)
    if len(found) < len(nodes):
        stuck = next(place for place, before in enumerate(waiting) if before)
        raise Problem(f"is cyclic (node {stuck}, {nodes[stuck].operator}, waits for itself)")
    return found
