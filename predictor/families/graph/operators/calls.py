"""Represent operators as arrays of sizes (one entry per operator) and convert model graphs to them.

A *product* is ``groups`` matrix products of [rows, inner] by [inner, columns]; a convolution is a
product with images x output positions as rows (implicit GEMM). A *vector* operator (element-wise,
softmax, normalisation) works on [rows, columns].

A graph's matrix products and convolutions become products. Grouped convolutions with few channels
per group (depthwise) and all other operators become memory-bound vector operators. A bias that is
added after a product is part of the product. Views run no kernel and take no time. Operators
without a measured counterpart (pooling, movement, unknown ones) are assumed to take the time to
read and write their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from berth.predictor.core.arrays import Floats
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.kinds import AXES, COLUMNS, FAMILIES
from berth.predictor.graphs.operators import OpFamily
from berth.predictor.graphs.roofline import FREE, MATRIX, load_of
from berth.predictor.hardware.device import Numbers

Integers: TypeAlias = NDArray[np.int64]

WINOGRAD = 2.25
"""Factor by which Winograd's F(2x2, 3x3) reduces the multiplications of a 3x3 convolution of stride
1 (Lavin and Gray, CVPR 2016)."""


class CallKind(IntEnum):
    """Types of operators whose times were measured."""

    PRODUCT = 0
    """A batched product of two activations."""
    LINEAR = 1
    """A product with weights and a bias."""
    CONVOLUTION = 2
    """A 3x3 convolution of stride 1, ungrouped. Other convolutions count as LINEAR (implicit
    GEMM)."""
    UNARY = 3
    """One tensor is read and one written; also used for all other memory-bound operators."""
    BINARY = 4
    SOFTMAX = 5
    NORMALISATION = 6


MATRIX_KINDS = (CallKind.PRODUCT, CallKind.LINEAR, CallKind.CONVOLUTION)


@dataclass(frozen=True)
class Calls:
    """Sizes of n operator calls, as arrays of shape [n]. Each tensor is read or written once."""

    kind: Integers
    groups: Floats
    rows: Floats
    columns: Floats
    inner: Floats
    """Inner dimension of a product; 1 for vector operators."""
    flops: Floats
    """Arithmetic operations of the direct algorithm: 2 per multiply-accumulate."""
    moved_bytes: Floats

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> Calls:
        return Calls(**{column.name: getattr(self, column.name)[chosen] for column in fields(self)})

    @staticmethod
    def joined(*parts: Calls) -> Calls:
        """Return the concatenation of several ``Calls``."""
        return Calls(**{
            column.name: np.concatenate([getattr(part, column.name) for part in parts])
            for column in fields(Calls)
        })  # fmt: skip


FLOAT_BYTES = 4.0
"""Bytes of a number in fp32, in which operators were measured."""


def products(groups: ArrayLike, rows: ArrayLike, columns: ArrayLike, inner: ArrayLike) -> Calls:
    """Return ``Calls`` of batched matrix products of activations: [rows, inner] by [inner,
    columns], ``groups`` times."""
    g, m, n, k = _columns(groups, rows, columns, inner)
    return _calls(CallKind.PRODUCT, (g, m, n, k), 2 * g * m * n * k,
                  FLOAT_BYTES * g * (m * k + k * n + m * n))  # fmt: skip


def linears(rows: ArrayLike, columns: ArrayLike, inner: ArrayLike) -> Calls:
    """Return ``Calls`` of matrix products of [rows, inner] with weights [inner, columns] and a
    bias."""
    m, n, k = _columns(rows, columns, inner)
    return _calls(CallKind.LINEAR, (np.ones_like(m), m, n, k), 2 * m * n * k,
                  FLOAT_BYTES * (m * k + k * n + m * n))  # fmt: skip


def convolutions(
    images: ArrayLike, inputs: ArrayLike, outputs: ArrayLike, height: ArrayLike, width: ArrayLike
) -> Calls:
    """Return ``Calls`` of 3x3 convolutions of stride 1 and padding 1."""
    b, i, o, h, w = _columns(images, inputs, outputs, height, width)
    m, k = b * h * w, 9 * i
    return _calls(CallKind.CONVOLUTION, (np.ones_like(m), m, o, k), 2 * m * o * k,
                  FLOAT_BYTES * (m * i + k * o + m * o))  # fmt: skip


def vectors(kind: CallKind, rows: ArrayLike, columns: ArrayLike) -> Calls:
    """Return ``Calls`` of element-wise operators, softmax or normalisation over [rows, columns]."""
    m, n = _columns(rows, columns)
    tensors = 3 if kind is CallKind.BINARY else 2
    work = {CallKind.SOFTMAX: 5.0, CallKind.NORMALISATION: 8.0}.get(kind, 1.0)
    ones = np.ones_like(m)
    return _calls(kind, (ones, m, n, ones), work * m * n, FLOAT_BYTES * tensors * m * n)


def _columns(*sizes: ArrayLike) -> list[Floats]:
    wide = np.broadcast_arrays(*(np.atleast_1d(np.asarray(x, np.float64)) for x in sizes))
    return [np.array(x) for x in wide]


def _calls(kind: CallKind, sizes: Sequence[Floats], flops: Floats, moved: Floats) -> Calls:
    groups, rows, columns, inner = sizes
    return Calls(np.full(len(flops), int(kind)), groups, rows, columns, inner, flops, moved)


FEW_CHANNELS = 8
"""Convolutions with fewer channels per group (input or output) do not run on matrix units."""
NORMALISED_ROWS = frozenset({
    "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization",
    "com.microsoft:SkipLayerNormalization", "com.microsoft:SkipSimplifiedLayerNormalization",
    "InstanceNormalization", "GroupNormalization",
})  # fmt: skip
"""Normalisations that compute statistics of the data; other normalisations scale each element by
constants."""
VIEWS = frozenset({"Split", "SplitToSequence", "SequenceAt", "Identity", "Slice"})
"""Operators that frameworks run without copying, in addition to the family of views."""
_AT = {name: place for place, name in enumerate(COLUMNS)}
_MATRIX = np.array([family in MATRIX for family in FAMILIES])
_FREE = np.array([family in FREE for family in FAMILIES])
_CONVOLUTION = FAMILIES.index(OpFamily.CONVOLUTION)
_FUSIBLE = np.array([
    family in (OpFamily.ACTIVATION, OpFamily.ELEMENTWISE, OpFamily.NORMALISATION, OpFamily.SOFTMAX)
    for family in FAMILIES
])  # fmt: skip
_SOFTMAX = FAMILIES.index(OpFamily.SOFTMAX)


@dataclass(frozen=True)
class GraphCalls:
    """Operator calls of a model graph, one for each kind of node (nodes of equal operator and
    sizes)."""

    calls: Calls
    runs: NDArray[np.bool_]
    """[kinds] whether the kind runs a kernel; False: it takes no time."""
    times: Integers
    """[kinds] number of nodes of each kind (``compiled``: without fused nodes)."""
    waits: Floats
    """[kinds] launches per node beyond the first; a recurrent layer launches a kernel for each
    step."""


def calls_of(
    graph: ModelGraph, numbers: Numbers, batch: int | None = None, *, compiled: bool = False
) -> GraphCalls:
    """Return one operator call for each kind of node in the graph, with floats stored in
    ``numbers``.

    ``batch``: if it differs from the graph's batch, activations are scaled in proportion.
    ``compiled``: a vector operator that reads another vector operator's output is fused with it.
    """
    table = graph.kinds
    load = load_of(graph, numbers)
    family = load.family
    scale = 1.0 if batch is None else batch / max(graph.batch, 1)
    moved = np.maximum(load.weight_bytes + scale * load.activation_bytes, 1.0)
    output = np.maximum(table[:, _AT["output_0"] : _AT["output_0"] + AXES], 1).astype(np.float64)
    rank = np.clip(table[:, _AT["output_rank"]], 1, AXES)
    elements = output.prod(1)
    last = output[np.arange(len(table)), rank - 1]
    macs = table[:, _AT["macs"]].astype(np.float64)
    inner = np.maximum(macs / elements, 1.0)
    groups, rows, columns = np.ones_like(last), elements / last, last

    weighted = load.weight_bytes > 0
    apart = _MATRIX[family] & (family != _CONVOLUTION) & ~weighted & (rank >= 3)
    before = output[np.arange(len(table)), np.maximum(rank - 2, 0)]
    groups = np.where(apart, elements / (before * last), groups)
    rows = np.where(apart, before, rows)
    kind = np.where(apart, CallKind.PRODUCT, CallKind.LINEAR)

    convolution = family == _CONVOLUTION
    split = np.maximum(table[:, _AT["groups"]], 1).astype(np.float64)
    channels = output[:, 1]
    groups = np.where(convolution, split, groups)
    rows = np.where(convolution, elements / channels, rows)
    columns = np.where(convolution, np.maximum(channels / split, 1.0), columns)
    kind = np.where(convolution & (split > 1), CallKind.PRODUCT, kind)
    kind = np.where(convolution & (split == 1) & _three_by_three(table), CallKind.CONVOLUTION, kind)
    depthwise = convolution & (split > 1) & (
        (columns < FEW_CHANNELS) | (_inputs_a_group(table, split) < FEW_CHANNELS)
    )  # fmt: skip

    vector = ~_MATRIX[family] | depthwise | (macs <= 0)
    two_read = (table[:, _AT["inputs"]] >= 2) & ~depthwise
    measured = np.where(two_read, CallKind.BINARY, CallKind.UNARY)
    measured = np.where(family == _SOFTMAX, CallKind.SOFTMAX, measured)
    measured = np.where(_named(graph, NORMALISED_ROWS), CallKind.NORMALISATION, measured)
    calls = Calls(
        np.where(vector, measured, kind).astype(np.int64),
        np.where(vector, 1.0, np.where(apart, scale * groups, groups)),
        np.where(vector, scale * elements / last, np.where(apart, rows, scale * rows)),
        np.where(vector, last, columns),
        np.where(vector, 1.0, inner),
        scale * np.maximum(load.flops, 0.0),
        moved,
    )
    views = _named(graph, VIEWS)
    runs = ~_FREE[family] & ~views & ~_biases(graph, load.weight_bytes)
    alone = ~_absorbed(graph) if compiled else np.ones(len(graph), bool)
    times = np.bincount(graph.kind[alone], minlength=len(table))
    return GraphCalls(calls, runs, times, load.launches - 1)


def _absorbed(graph: ModelGraph) -> NDArray[np.bool_]:
    fusible = _FUSIBLE[graph.family]
    writer, reader = graph.edges
    absorbed = np.zeros(len(graph), bool)
    absorbed[reader[fusible[writer] & fusible[reader]]] = True
    return absorbed


def _named(graph: ModelGraph, names: frozenset[str]) -> NDArray[np.bool_]:
    """Return for each kind of node whether its operator is in ``names``, [kinds]."""
    return np.array([name in names for name in graph.operators])[graph.kind_operator]


def _three_by_three(table: Integers) -> NDArray[np.bool_]:
    of = {name: table[:, place] for name, place in _AT.items()}
    is_plain: NDArray[np.bool_] = (
        (of["kernel_1"] == 3) & (of["kernel_2"] == 3) & (of["kernel_0"] <= 1)
        & (of["stride_1"] == 1) & (of["stride_2"] == 1) & (of["dilation"] <= 1)
    )  # fmt: skip
    return is_plain


def _inputs_a_group(table: Integers, split: Floats) -> Floats:
    inputs: Floats = np.maximum(table[:, _AT["input_1"]], 1) / split
    return inputs


def _biases(graph: ModelGraph, weight_bytes: Floats) -> NDArray[np.bool_]:
    """Return for each kind of node whether it adds a constant bias to the output of a matrix
    product, [kinds]."""
    product = graph.operators.index("MatMul") if "MatMul" in graph.operators else -1
    add = graph.operators.index("Add") if "Add" in graph.operators else -1
    after = np.zeros(len(graph.kinds), bool)
    if min(product, add) < 0:
        return after
    writer, reader = graph.edges
    from_product = reader[graph.operator[writer] == product]
    kinds = graph.kind[from_product]
    after[kinds] = True
    one_read = graph.kinds[:, _AT["inputs"]] == 1
    is_bias: NDArray[np.bool_] = (
        after & one_read & (graph.kind_operator == add) & (weight_bytes > 0)
    )
    return is_bias
