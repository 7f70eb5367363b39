"""Compute features of a model graph for learnt time models: a fixed vector and roofline times.

``graph_features`` does not depend on a platform. It returns work, elements and nodes by group of
operators for a single image, in elements instead of bytes, so that precision and batch can be
chosen later. ``roof_features`` returns the roofline time of the same work on one platform, at a
batch and a precision: the longer of arithmetic and memory for each operator, summed by group, and
the number of launches. Numpy only; about a millisecond for a graph of 1,500 nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from berth.predictor.core.arrays import Floats
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.kinds import COLUMNS, FAMILIES
from berth.predictor.graphs.operators import OpFamily
from berth.predictor.graphs.roofline import CACHED_SHARE, FREE
from berth.predictor.graphs.values import BITS
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof

Integers: TypeAlias = NDArray[np.int64]

GROUPS = (
    "stem", "pointwise", "convolution", "large_kernel", "grouped", "depthwise", "matmul", "product",
    "normalisation", "softmax", "activation", "elementwise", "pooling", "reduction", "movement",
    "other",
)  # fmt: skip
"""Groups of operators. Convolutions are grouped by kernel size and grouping (``stem``: at most 4
input channels), products into those with weights (``matmul``) and those of two activations
(``product``: attention), all others by family."""
MATRIX_GROUPS = 8
"""Number of groups (the first of ``GROUPS``) that run on matrix units, if the device has matrix
units for the precision."""
_OF_GROUP = ("nodes", "macs", "flops", "elements", "weights")
"""Features of each group of operators, per image (nodes and weights: per graph)."""
_OVERALL = (
    "nodes", "kinds", "depth", "macs", "flops", "elements", "written", "worked", "weights",
    "parameters", "input_elements", "output_elements", "widest_written",
    "mean_channels", "mean_positions", "mean_inner", "intensity",
    "macs_intensity_below_16", "macs_intensity_below_64", "macs_intensity_below_256",
    "macs_few_channels", "macs_strided", "elements_narrow_matmul",
    "elements_gelu", "elements_sigmoid", "elements_relu", "elements_layer_norm",
    "elements_batch_norm", "nodes_small", "nodes_chained",
)  # fmt: skip
GRAPH_FEATURES = (
    *_OVERALL, *(f"{quantity}_{group}" for group in GROUPS for quantity in _OF_GROUP),
)  # fmt: skip
"""Names of the columns of ``graph_features``.

``elements``: elements read and written, without weights; ``written``: outputs only; ``worked``:
outputs of convolutions and products (timm's activations); ``mean_*``: means of the logs of input
channels, output positions and the inner dimension, weighted by MACs; ``nodes_small``: nodes that
write fewer than 100,000 elements per image.
"""
ROOF_FEATURES = (
    "roof_s", "compute_s", "memory_s", "fused_s", "launches", *(f"{g}_s" for g in GROUPS),
)  # fmt: skip
"""Names of the columns of ``roof_features``, in seconds per image at peak rates (``launches``: a
count).

``roof_s``: the sum over operators of the longer of arithmetic and memory time; ``compute_s`` and
``memory_s``: the sums of arithmetic and of memory time; ``fused_s``: ``roof_s`` without
element-wise operators, activations and normalisations (a compiler would fuse them); ``launches``:
number of nodes that run; then ``roof_s`` by group.
"""
FUSED = ("normalisation", "activation", "elementwise")
_AT = {name: place for place, name in enumerate(COLUMNS)}
_SMALL = 100_000
_FAMILY_GROUP = {
    OpFamily.NORMALISATION: "normalisation", OpFamily.SOFTMAX: "softmax",
    OpFamily.ACTIVATION: "activation", OpFamily.ELEMENTWISE: "elementwise",
    OpFamily.QUANTISATION: "elementwise", OpFamily.POOLING: "pooling",
    OpFamily.REDUCTION: "reduction",
    OpFamily.RESAMPLING: "movement", OpFamily.MOVEMENT: "movement", OpFamily.SELECTION: "movement",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorkByKind:
    """The work of a graph for one image, with one entry for each kind of operator that runs a
    kernel."""

    group: Integers
    """Index of the kind's group in ``GROUPS``."""
    count: Floats
    """Number of nodes of the kind."""
    macs: Floats
    """Multiply-accumulates of one node for one image; the fields below are also per node and
    image."""
    flops: Floats
    elements: Floats
    """Elements read and written, without weights."""
    written: Floats
    weights: Floats
    """Constant elements read per node; not divided by the batch."""


@dataclass(frozen=True, slots=True)
class GraphWork(WorkByKind):
    """The work of a graph for one image, together with the graph."""

    graph: ModelGraph
    kinds: Integers
    """Indices of the kinds' rows in ``graph.kinds``."""


def work_of(graph: ModelGraph) -> GraphWork:
    """Return the work of each kind of operator in the graph for one image, without views and shape
    operators (which run no kernel)."""
    table, batch = graph.kinds, max(graph.batch, 1)
    free = np.array([family in FREE for family in FAMILIES])[table[:, _AT["family"]]]
    count = np.bincount(graph.kind, minlength=len(table))
    running_kinds = np.flatnonzero(~free & (count > 0))
    rows = table[running_kinds]
    number = {name: rows[:, _AT[name]].astype(np.float64) for name in _NUMBERS}
    size = np.array([max(BITS.get(int(code), 32), 1) / 8 for code in rows[:, _AT["dtype"]]])
    moved, weights = number["moved_bytes"], number["weight_bytes"]
    own = np.minimum(weights, moved)
    return GraphWork(
        _groups(graph, running_kinds), count[running_kinds].astype(np.float64),
        number["macs"] / batch, number["flops"] / batch,
        (moved - weights).clip(min=0) / size / batch,
        np.minimum(number["output_bytes"], moved) / size / batch, own / size, graph, running_kinds,
    )  # fmt: skip


_NUMBERS = ("macs", "flops", "weight_bytes", "output_bytes", "moved_bytes")


def _groups(graph: ModelGraph, running_kinds: Integers) -> Integers:
    rows = graph.kinds[running_kinds]
    place = {name: n for n, name in enumerate(GROUPS)}
    plain = np.array([place[_FAMILY_GROUP.get(family, "other")] for family in FAMILIES])
    family = rows[:, _AT["family"]]
    group = plain[family]
    conv = family == FAMILIES.index(OpFamily.CONVOLUTION)
    split, channels = rows[:, _AT["groups"]], rows[:, _AT["input_1"]]
    kernel = np.maximum(rows[:, _AT["kernel_0"] : _AT["kernel_2"] + 1], 1).prod(axis=1)
    ordered = (
        ("convolution", conv), ("pointwise", conv & (kernel <= 1)),
        ("large_kernel", conv & (kernel > 9)), ("grouped", conv & (split > 1)),
        ("depthwise", conv & (split > 1) & (2 * split > channels)),
        ("stem", conv & (split <= 1) & (channels <= 4)),
        ("matmul", np.isin(family, _PRODUCTS)),
        ("product", np.isin(family, _PRODUCTS) & (rows[:, _AT["weight_bytes"]] == 0)),
        ("product", family == FAMILIES.index(OpFamily.ATTENTION)),
    )  # fmt: skip
    for name, where in ordered:
        group = np.where(where, place[name], group)
    return group


_PRODUCTS = [FAMILIES.index(OpFamily.MATMUL), FAMILIES.index(OpFamily.RECURRENT)]


def graph_features(work: GraphWork) -> Floats:
    """Return the graph's features for one image, [len(GRAPH_FEATURES)]; all are finite and at least
    0."""
    graph, times = work.graph, work.count
    sums = np.zeros((len(GROUPS), len(_OF_GROUP)))
    for place, values in enumerate(
        (np.ones(len(times)), work.macs, work.flops, work.elements, work.weights)
    ):
        sums[:, place] = np.bincount(work.group, times * values, minlength=len(GROUPS))
    return np.concatenate((_overall(work, graph, sums.sum(axis=0)), sums.ravel()))


def _overall(work: GraphWork, graph: ModelGraph, totals: Floats) -> Floats:
    nodes, macs, flops, elements, weights = totals.tolist()
    times, rows = work.count, graph.kinds[work.kinds]
    mac, element = times * work.macs, times * work.elements
    whole: float = max(macs, 1.0)
    out = rows[:, _AT["output_0"] : _AT["output_0"] + 6].astype(np.float64)
    channels = np.maximum(rows[:, _AT["input_1"]], 1)
    inner = np.maximum(work.macs / np.maximum(work.written, 1), 1)
    positions = np.maximum(np.maximum(out, 1).prod(axis=1) / graph.batch, 1) / np.maximum(
        out[:, 1], 1
    )
    intensity = work.macs / np.maximum(work.elements + work.weights, 1)
    names = np.array(graph.operators)[graph.kind_operator[work.kinds]]
    image = [p.shape for p in graph.inputs]
    strided = rows[:, _AT["stride_2"]] > 1

    def share(where: NDArray[np.bool_]) -> float:
        part: Floats = mac[where]
        return float(part.sum()) / whole

    def of(*operators: str) -> float:
        part: Floats = element[np.isin(names, operators)]
        return float(part.sum())

    return np.array([
        nodes, len(rows), _depth(graph), macs, flops, elements,
        float((times * work.written).sum()),
        float((times * work.written)[work.macs > 0].sum()), weights, graph.parameters,
        sum(float(np.prod(s[1:])) for s in image if s),
        sum(float(np.prod(p.shape[1:])) for p in graph.outputs if p.shape),
        float(work.written.max(initial=0)),
        float((mac * np.log2(channels)).sum()) / whole,
        float((mac * np.log2(positions)).sum()) / whole,
        float((mac * np.log2(inner)).sum()) / whole,
        macs / max(elements + weights, 1.0),
        share(intensity < 16), share(intensity < 64), share(intensity < 256),
        share(inner < 32), share(strided),
        float(element[(work.group == GROUPS.index("product")) & (inner < 64)].sum()),
        of("Gelu", "Erf", "Tanh"), of("Sigmoid", "HardSigmoid", "HardSwish", "Swish", "Mish"),
        of("Relu", "LeakyRelu", "Clip", "PRelu"), of("LayerNormalization"),
        of("BatchNormalization"), float(times[work.written < _SMALL].sum()),
        float(len(graph) - np.count_nonzero(np.bincount(graph.edges[0], minlength=1) > 1)),
    ])  # fmt: skip


def _depth(graph: ModelGraph) -> float:
    depth = [1] * len(graph)
    for source, target in sorted(zip(*graph.edges.tolist(), strict=True), key=lambda e: e[1]):
        if depth[source] >= depth[target]:
            depth[target] = depth[source] + 1
    return float(max(depth))


def roof_features(
    work: WorkByKind, places: Sequence[Roof], numbers: Sequence[Numbers], batch: int
) -> Floats:
    """Return the roofline times, [places, len(ROOF_FEATURES)], in seconds per image at ``batch`` on
    each of ``places``, in the precision at the same index of ``numbers``."""
    matrix = work.group < MATRIX_GROUPS
    onehot = np.zeros((len(work.group), len(GROUPS)))
    onehot[np.arange(len(work.group)), work.group] = work.count
    peak = np.array([p.matrix_flops[n] for p, n in zip(places, numbers, strict=True)])
    vector = np.array([p.vector_flops for p in places])
    width = np.array([n.bits / 8 for n in numbers])
    dram, l2, held = (
        np.array([getattr(p, name) for p in places])[:, None]
        for name in ("dram_bytes", "l2_bytes", "l2_capacity")
    )
    arithmetic = work.flops / np.where(matrix, peak[:, None], vector[:, None])
    weights = width[:, None] * work.weights / batch
    both = width[:, None] * work.elements + weights
    from_dram = np.where(batch * both <= CACHED_SHARE * held, weights, both) / dram
    memory = np.maximum(from_dram, both / l2)
    grouped = np.maximum(arithmetic, memory) @ onehot
    fused = [GROUPS.index(name) for name in FUSED]
    whole = grouped.sum(axis=1)
    return np.column_stack([
        whole, arithmetic @ work.count, memory @ work.count,
        whole - grouped[:, fused].sum(axis=1), np.full(len(places), work.count.sum()), grouped,
    ])  # fmt: skip
