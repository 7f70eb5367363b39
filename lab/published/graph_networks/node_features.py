"""A model graph as numbers for a graph network: nodes, edges, and totals (numpy only).

Nodes: operator (one-hot) ⊕ family (one-hot) ⊕ attributes ⊕ logarithms of shapes and work, after
the thesis's Algorithm 1; totals: its equation 4.1 with parameters and bytes beside. A graph is
taken at batch 1: what is said of it holds for every batch, and batch stands with the run's other
columns (device, precision ...), after the readout. Views, which run nothing, are left out: what
reads a view reads what it shows (the filter of Algorithm 1, line 2).

Most nodes of a model repeat. A network of L layers cannot tell two nodes apart whose surroundings
up to L edges away are alike, so these share one row here (colour refinement, Weisfeiler and Leman
1968, L rounds): the network's answer stays exactly the same and costs a fraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from berth.predictor.graphs.graph import Indices, Integers, ModelGraph
from berth.predictor.graphs.kinds import ATTRIBUTES, AXES, COLUMNS, FAMILIES
from berth.predictor.graphs.roofline import FREE

Floats32: TypeAlias = NDArray[np.float32]
Hashes: TypeAlias = NDArray[np.uint64]

OPERATORS = (
    "Add", "AveragePool", "BatchNormalization", "Clip", "Col2Im", "Concat", "Conv", "DepthToSpace",
    "Div", "Expand", "Gather", "Gelu", "Gemm", "HardSigmoid", "HardSwish", "InstanceNormalization",
    "LayerNormalization", "MatMul", "MaxPool", "Mul", "Neg", "Pad", "Pow", "ReduceL2", "ReduceMax",
    "ReduceMean", "ReduceSum", "Relu", "Reshape", "Resize", "Sigmoid", "Slice", "Softmax", "Split",
    "Sqrt", "Squeeze", "Sub", "Tanh", "Transpose", "Unsqueeze",
)  # fmt: skip
"""Those of timm's graphs; any other is known by its family alone."""
WORK = ("macs", "flops", "parameters", "weight_bytes", "input_bytes", "output_bytes", "moved_bytes")
NODE_FEATURES = (
    *(f"is {name}" for name in OPERATORS),
    *(f"is {family.value}" for family in FAMILIES),
    *(f"log {name}" for name in ATTRIBUTES),
    *(f"log input_{axis}" for axis in range(AXES)),
    *(f"log output_{axis}" for axis in range(AXES)),
    *(f"log {name}" for name in WORK),
)
STATIC_FEATURES = (
    "log macs", "log convolutions", "log dense", "log relu", "log nodes", "log parameters",
    "log moved_bytes", "log activations", "log peak_activation_bytes",
)  # fmt: skip
"""The first four are DIPPM's; its fifth, the batch, is a column of the run."""
STEPS = 3
_AT = {name: place for place, name in enumerate(COLUMNS)}
_FREE = np.array([family in FREE for family in FAMILIES])
_DENSE = ("Gemm", "MatMul")


@dataclass(frozen=True, slots=True)
class CompactGraph:
    """A graph whose like nodes share a row: exact for networks of at most ``steps`` layers."""

    features: Floats32
    """[rows, len(NODE_FEATURES)]"""
    count: Floats32
    """[rows]: nodes that share the row."""
    edges: Indices
    """[2, e]: row that a message comes from, row that it goes to; in and against the data's way."""
    times: Floats32
    """[e]: how many such neighbours a node of the second row has."""
    steps: int

    def __len__(self) -> int:
        return len(self.count)


def compact(graph: ModelGraph, steps: int = STEPS) -> CompactGraph:
    """Return a graph (of batch 1) for a network of at most ``steps`` layers."""
    kept, pairs = _without_views(graph)
    there = np.concatenate((pairs, pairs[::-1]), axis=1)
    there = there[:, np.argsort(there[1], kind="stable")]
    degree = np.bincount(there[1], minlength=len(kept))
    kind = graph.kind[kept].astype(np.uint64)
    colour = _mixed(kind << np.uint64(32) | degree.astype(np.uint64))
    for _ in range(steps):
        colour = _mixed(colour + _sum_at(_mixed(colour)[there[0]], degree))
    _, first, row = np.unique(colour, return_index=True, return_inverse=True)
    source, target = there[:, np.isin(there[1], first)]
    pair, times = np.unique(row[target] * len(first) + row[source], return_counts=True)
    return CompactGraph(
        features=kind_features(graph)[graph.kind[kept[first]]],
        count=np.bincount(row, minlength=len(first)).astype(np.float32),
        edges=np.stack((pair % len(first), pair // len(first))).astype(np.int32),
        times=times.astype(np.float32),
        steps=steps,
    )


def _without_views(graph: ModelGraph) -> tuple[Integers, Integers]:
    """Nodes that run something, and [2, e] edges between them; all nodes where none does."""
    free = _FREE[graph.family]
    if free.all():
        return np.arange(len(graph)), graph.edges.astype(np.int64)
    shown = np.arange(len(graph))
    source, target = graph.edges[:, ::-1]
    shown[target] = np.where(free[target], source, target)
    while not np.array_equal(shown, further := shown[shown]):
        shown = further
    kept = np.flatnonzero(~free)
    place = np.full(len(graph), -1)
    place[kept] = np.arange(len(kept))
    pairs = np.stack((place[shown[graph.edges[0]]], place[graph.edges[1]]))
    return kept, pairs[:, (pairs >= 0).all(axis=0)]


def kind_features(graph: ModelGraph) -> Floats32:
    """Return [kinds, len(NODE_FEATURES)]"""
    place = {name: n for n, name in enumerate(OPERATORS)}
    known = np.array([place.get(name, -1) for name in graph.operators])[graph.kind_operator]
    made = np.zeros((len(graph.kinds), len(NODE_FEATURES)), np.float32)
    rows = np.flatnonzero(known >= 0)
    made[rows, known[rows]] = 1
    made[np.arange(len(made)), len(OPERATORS) + graph.kinds[:, _AT["family"]]] = 1
    numbers = graph.kinds[:, _NUMBERS].astype(np.float64)
    made[:, len(OPERATORS) + len(FAMILIES) :] = np.sign(numbers) * np.log1p(np.abs(numbers))
    return made


_NUMBERS = [
    _AT[name]
    for name in (
        *ATTRIBUTES, *(f"input_{n}" for n in range(AXES)), *(f"output_{n}" for n in range(AXES)),
        *WORK,
    )
]  # fmt: skip


def static_features(graph: ModelGraph) -> Floats32:
    """Return [len(STATIC_FEATURES)] of a graph (of batch 1)."""
    dense = sum(graph.count(name) for name in _DENSE)
    totals = (
        graph.total_macs, graph.count("Conv"), dense, graph.count("Relu"), len(graph),
        graph.parameters, graph.total_moved_bytes, graph.activations, graph.peak_activation_bytes,
    )  # fmt: skip
    return np.log1p(np.array(totals, np.float64)).astype(np.float32)


def _sum_at(values: Hashes, degree: NDArray[np.int64]) -> Hashes:
    """Return [n] sums (wrapping) of ``values``, which stand by target, ``degree`` of them each."""
    total = np.concatenate((np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)))
    end = np.cumsum(degree)
    found: Hashes = total[end] - total[end - degree]
    return found


def _mixed(values: Hashes) -> Hashes:
    """Return each number scattered over 64 bits (splitmix64's finaliser)."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Hashes = mixed ^ (mixed >> np.uint64(31))
    return found
