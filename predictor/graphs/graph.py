"""A deep-learning model as a graph: each operator's shapes, operations and bytes moved.

A ModelGraph is compact: nodes with equal operator, attributes and shapes share one row of the
table of *kinds*, from which arrays of length n (number of nodes) are looked up. Nodes are in
topological order. Shapes are those at the graph's batch size. One multiply-accumulate (MAC) is
two flops; see ``operators``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from berth.predictor.graphs.kinds import ATTRIBUTES, AXES, COLUMNS, FAMILIES
from berth.predictor.graphs.operators import OpFamily

Integers: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.int32]

_AT = {name: place for place, name in enumerate(COLUMNS)}
_VIEW = FAMILIES.index(OpFamily.VIEW)


class MalformedGraph(ValueError):
    """Raised by ``decode`` for bytes that do not encode a valid graph."""


@dataclass(frozen=True, slots=True)
class Port:
    """The name, type (an ONNX code) and shape of an input or output of the graph."""

    name: str
    dtype: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RepeatedBlock:
    """A sequence of nodes that is repeated back to back, such as a transformer's layers."""

    first: int
    length: int
    """Number of nodes in one repetition."""
    count: int


@dataclass(frozen=True)
class ModelGraph:
    """A deep-learning model's graph at one batch size, as a table of kinds of nodes.

    The arrays are read-only.
    """

    digest: str
    """Hash of operators, shapes, work and edges; names and the file's order do not change it."""
    batch: int
    opset: int
    producer: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    operators: tuple[str, ...]
    """Names of the graph's operators, sorted; onnxruntime's own are ``com.microsoft:Name``."""
    kinds: Integers
    """Array [kinds, len(COLUMNS)]: the numbers that describe each kind of node."""
    kind_operator: Indices
    """Array [kinds]: index of each kind's operator in ``operators``."""
    kind: Indices
    """Array [n]: index of each node's row in ``kinds``."""
    edges: Indices
    """Array [2, e]: indices of the producing and the consuming node; each pair is listed once."""
    parameters: int
    """Number of parameters as the model's framework counts them (estimate of ``parameters.py``)."""
    stored_elements: int
    """Number of elements of all constants in the file."""
    stored_bytes: int
    folded: Mapping[str, int]
    """Number of nodes left out, by operator.

    They depend on constants alone, or return their input unchanged (Identity).
    """
    unknown: Mapping[str, int]
    """Number of nodes of each operator that the catalogue lacks; they count as 0 operations."""
    assumed_shapes: int
    """Number of unknown nodes whose output shape had to be assumed."""
    encoded: bytes = field(repr=False, compare=False)
    """The bytes from ``child.encode`` that this graph was decoded from."""

    def __len__(self) -> int:
        return len(self.kind)

    def column(self, name: str) -> Integers:
        """Return array [n]: each node's value in the column ``name`` of ``COLUMNS``."""
        values: Integers = self.kinds[self.kind, _AT[name]]
        return values

    @cached_property
    def operator(self) -> Indices:
        """Return array [n]: index of each node's operator in ``operators``."""
        codes: Indices = self.kind_operator[self.kind]
        return codes

    @cached_property
    def family(self) -> Integers:
        """Return array [n]: index of each node's operator family in ``kinds.FAMILIES``."""
        return self.column("family")

    @cached_property
    def dtype(self) -> Integers:
        """Return array [n]: ONNX's code of the type of each node's first output."""
        return self.column("dtype")

    @cached_property
    def input_shape(self) -> Integers:
        """Return array [n, 6]: the shape of each node's first activation input, padded with 0.

        Leading dimensions of shapes above rank 6 are multiplied together.
        """
        return self._block("input_0", AXES)

    @cached_property
    def output_shape(self) -> Integers:
        """Return array [n, 6]: the shape of each node's first output, as in ``input_shape``."""
        return self._block("output_0", AXES)

    @cached_property
    def attributes(self) -> Integers:
        """Return array [n, len(ATTRIBUTES)]: each node's attributes, 0 where one does not apply."""
        return self._block(ATTRIBUTES[0], len(ATTRIBUTES))

    @cached_property
    def macs(self) -> Integers:
        """Return array [n]: each node's multiply-accumulates.

        Only convolutions, matrix products, attention and recurrent layers have any.
        """
        return self.column("macs")

    @cached_property
    def flops(self) -> Integers:
        """Return array [n]: each node's flops, two per MAC and one per other operation."""
        return self.column("flops")

    @cached_property
    def node_parameters(self) -> Integers:
        """Return array [n]: number of parameters of each node; shared ones count at each user."""
        return self.column("parameters")

    @cached_property
    def weight_bytes(self) -> Integers:
        """Return array [n]: bytes of all constants that each node reads."""
        return self.column("weight_bytes")

    @cached_property
    def input_bytes(self) -> Integers:
        """Return array [n]: bytes of activations that each node reads."""
        return self.column("input_bytes")

    @cached_property
    def output_bytes(self) -> Integers:
        """Return array [n]: bytes of activations that each node writes.

        A view (such as Reshape) has the bytes of its output, though it writes none.
        """
        return self.column("output_bytes")

    @cached_property
    def moved_bytes(self) -> Integers:
        """Return array [n]: bytes that each node reads and writes without caches; 0 for views."""
        return self.column("moved_bytes")

    @cached_property
    def total_macs(self) -> int:
        """Return the multiply-accumulates (MACs) of the whole graph at its batch size."""
        return self._total("macs")

    @cached_property
    def total_flops(self) -> int:
        """Return the flops of the whole graph at its batch size."""
        return self._total("flops")

    @cached_property
    def total_moved_bytes(self) -> int:
        """Return the bytes that all operators read and write, without caches between operators."""
        return self._total("moved_bytes")

    @cached_property
    def activation_bytes(self) -> int:
        """Return the bytes of the outputs of all nodes of the graph except views."""
        rows = self.kinds[:, _AT["family"]] != _VIEW
        written = np.where(rows, self.kinds[:, _AT["output_bytes"]], 0)
        return _exact(written, self._times)

    @cached_property
    def activations(self) -> int:
        """Return the number of output elements of all nodes that have MACs.

        timm and fvcore define a model's number of activations this way.
        """
        worked = self.kinds[:, _AT["macs"]] > 0
        shapes = self.kinds[:, _AT["output_0"] : _AT["output_0"] + AXES]
        elements = np.where(worked, np.prod(np.maximum(shapes, 1), axis=1), 0)
        return _exact(elements, self._times)

    @cached_property
    def peak_activation_bytes(self) -> int:
        """Return the peak bytes of activations in use when nodes run in the graph's order.

        A view shares its input's memory.
        """
        family, written = self.family.tolist(), self.output_bytes.tolist()
        root = list(range(len(self)))
        last = list(range(len(self)))
        readers: list[list[int]] = [[] for _ in root]
        for source, target in zip(*self.edges.tolist(), strict=True):
            readers[target].append(source)
        for node, sources in enumerate(readers):
            for source in sources:
                last[root[source]] = node
            if family[node] == _VIEW and sources:
                root[node] = root[sources[0]]
        ends: list[list[int]] = [[] for _ in root]
        for node, end in enumerate(last):
            if root[node] == node:
                ends[end].append(node)
        live = peak = 0
        for node in range(len(self)):
            if root[node] == node:
                live += written[node]
                peak = max(peak, live)
            live -= sum(written[gone] for gone in ends[node])
        return peak

    @cached_property
    def repeated_blocks(self) -> tuple[RepeatedBlock, ...]:
        """Return the sequences of nodes that occur at least twice back to back, longest first.

        They do not overlap. Nodes are compared by kind, so layers of different widths differ.
        """
        return repeated(self.kind)

    def count(self, operator: str) -> int:
        """Return the number of nodes with this operator; 0 for an operator that is not used."""
        if operator not in self.operators:
            return 0
        return int(np.count_nonzero(self.operator == self.operators.index(operator)))

    @cached_property
    def _times(self) -> Integers:
        return np.bincount(self.kind, minlength=len(self.kinds))

    def _total(self, name: str) -> int:
        return _exact(self.kinds[:, _AT[name]], self._times)

    def _block(self, first: str, width: int) -> Integers:
        start = _AT[first]
        block: Integers = self.kinds[self.kind, start : start + width]
        return block


def _exact(values: Integers, times: Integers) -> int:
    return sum(a * b for a, b in zip(values.tolist(), times.tolist(), strict=True))


def repeated(kind: Indices) -> tuple[RepeatedBlock, ...]:
    """Return the back-to-back repetitions in a list of nodes' kinds, longest first."""
    blocks: list[RepeatedBlock] = []
    candidates: list[tuple[int, int, int]] = []
    for period in range(1, len(kind) // 2 + 1):
        same = np.flatnonzero(kind[period:] != kind[:-period])
        bounds = np.concatenate(([-1], same, [len(kind) - period]))
        runs = np.diff(bounds) - 1
        for place in np.flatnonzero(runs >= period):
            start = int(bounds[place]) + 1
            candidates.append((int(runs[place]) // period + 1, period, start))
    taken = np.zeros(len(kind), dtype=bool)
    for count, period, start in sorted(candidates, key=lambda c: (-c[0] * c[1], c[1], c[2])):
        if period > 1 and not taken[start : start + count * period].any():
            taken[start : start + count * period] = True
            blocks.append(RepeatedBlock(start, period, count))
    return tuple(blocks)


def decode(data: bytes | memoryview) -> ModelGraph:
    """Return the graph that ``child.encode`` encoded. Raises MalformedGraph for other bytes."""
    try:
        return _decode(bytes(data))
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise MalformedGraph(str(error)) from None


def _decode(data: bytes) -> ModelGraph:
    size = int.from_bytes(data[:4], "little")
    head: dict[str, Any] = json.loads(data[4 : 4 + size])
    kinds, nodes, edges = (int(head[name]) for name in ("kinds", "nodes", "edges"))
    if min(kinds, nodes) < 1 or edges < 0:
        raise MalformedGraph("no nodes")
    at = 4 + size
    counts = (kinds * len(COLUMNS), nodes, edges, edges)
    if len(data) != at + 8 * counts[0] + 4 * sum(counts[1:]):
        raise MalformedGraph("a wrong length")
    table = np.frombuffer(data, "<i8", counts[0], at).reshape(kinds, len(COLUMNS))
    at += 8 * counts[0]
    kind = np.frombuffer(data, "<i4", nodes, at)
    pairs = np.frombuffer(data, "<i4", 2 * edges, at + 4 * nodes).reshape(2, edges)
    names = tuple(str(name) for name in head["operators"])
    operator = np.array(head["operator_of"], np.int32)
    _check(table, kind, pairs, operator, len(names))
    for array in (table, kind, pairs, operator):
        array.flags.writeable = False
    return ModelGraph(
        digest=str(head["digest"]),
        batch=int(head["batch"]),
        opset=int(head["opset"]),
        producer=str(head["producer"]),
        inputs=_ports(head["inputs"]),
        outputs=_ports(head["outputs"]),
        operators=names,
        kinds=table,
        kind_operator=operator,
        kind=kind,
        edges=pairs,
        parameters=int(head["parameters"]),
        stored_elements=int(head["stored"]),
        stored_bytes=int(head["stored_bytes"]),
        folded=_counts(head["folded"]),
        unknown=_counts(head["unknown"]),
        assumed_shapes=int(head["assumed"]),
        encoded=data,
    )


def _check(table: Integers, kind: Indices, pairs: Indices, operator: Indices, names: int) -> None:
    """Raise MalformedGraph unless all indices are in range and edges lead to later nodes."""
    sound = (
        kind.min() >= 0 and kind.max() < len(table)
        and operator.shape == (len(table),) and operator.min() >= 0 and operator.max() < names
        and table[:, _AT["family"]].min() >= 0 and table[:, _AT["family"]].max() < len(FAMILIES)
        and (pairs.size == 0 or (pairs.min() >= 0 and pairs.max() < len(kind)))
        and bool(np.all(pairs[0] < pairs[1]))
    )  # fmt: skip
    if not sound:
        raise MalformedGraph("an index beyond its table")


def _counts(counts: dict[str, Any]) -> dict[str, int]:
    return {str(name): int(count) for name, count in counts.items()}


def _ports(rows: list[list[Any]]) -> tuple[Port, ...]:
    return tuple(
        Port(str(name), int(dtype), tuple(int(size) for size in shape))
        for name, dtype, shape in rows
    )
