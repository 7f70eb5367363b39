"""What autograd keeps for the backward pass, and the peak of a training step.

A product keeps the activations that it reads (the weight is there anyway); so do normalisations,
divisions, powers and products with parameters; ReLU and its kin (in place, as models use them),
sigmoid, tanh, softmax, exp and sqrt keep what they write; sums, means, copies and scalings by
constants keep nothing; maximum pooling keeps what it reads and the place of each maximum (8 bytes
an output); recurrent cells keep their gates. A run of pointwise nodes that is one function of one
tensor keeps that tensor. Operators that the catalogue lacks keep all that they read and write.
(PyTorch, tools/autograd/derivatives.yaml; TensorFlow's registered gradients agree in all but
details.) Masks of dropouts are not in exported graphs and therefore not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.predictor.footprint.liveness import Tensor, last_reads, peak
from berth.predictor.footprint.storage import Storage, is_linear
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.operators import Family

_BY_OUTPUT = frozenset({
    "Relu", "LeakyRelu", "Clip", "Elu", "Selu", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "Exp",
    "Sqrt", "Reciprocal",
})  # fmt: skip
_NOTHING = frozenset({
    Family.VIEW, Family.SHAPE, Family.MOVEMENT, Family.SELECTION, Family.RESAMPLING,
    Family.QUANTISATION,
})  # fmt: skip
_MEANS = frozenset({
    "ReduceMean", "ReduceSum", "GlobalAveragePool", "AveragePool", "Mean", "Sum", "Concat",
})  # fmt: skip
_ALL = frozenset({Family.UNKNOWN, Family.RECURRENT})
_INDEX_BYTES = 8
_MOST_GATES = 5
_CELLS = {"GRU": 5, "LSTM": 5, "RNN": 1}
"""Numbers that a recurrent cell keeps for each that it writes: gates and what they are made of
(ATen's fused cells: 5 for a GRU, four gates and the cell for an LSTM)."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The tensors that the backward pass reads."""

    nodes: frozenset[int]
    """Nodes whose output is kept; each memory counts once however often it is kept."""
    extra_bytes: int
    """Indices of maxima, and what recurrent cells keep."""


def saved(graph: ModelGraph, stored: Storage) -> Saved:
    """Return what a forward pass with autograd recording keeps."""
    saved_nodes: set[int] = set()
    extra = 0
    parameters = graph.node_parameters.tolist()
    read = graph.column("inputs").tolist()
    elements = np.prod(np.maximum(graph.output_shape, 1), axis=1).tolist()
    for node in range(len(stored)):
        name = stored.operator[node]
        if _in_run(stored, node):
            if not stored.inside[node]:
                saved_nodes.add(stored.origin[node])
            continue
        reads, writes = _rule(stored.family[node], name, read[node] < 2 and not parameters[node])
        if reads:
            saved_nodes.update(stored.sources[node])
        if writes:
            saved_nodes.add(node)
        if name.endswith("MaxPool"):
            extra += _INDEX_BYTES * elements[node]
        elif stored.family[node] is Family.RECURRENT:
            extra += _CELLS.get(name, _MOST_GATES) * stored.written[node]
    return Saved(frozenset(saved_nodes), extra)


def _rule(family: Family, name: str, alone: bool) -> tuple[bool, bool]:
    """Return whether an operator's (inputs, output) are kept.

    ``alone``: it reads one activation and no parameter.
    """
    if name in _BY_OUTPUT:
        return False, True
    if family in _ALL:
        return True, True
    if family in _NOTHING or name in _MEANS or is_linear(name):
        return False, False
    scaled = family is Family.ELEMENTWISE and alone and name in ("Mul", "Div")
    return not scaled, False


def _in_run(stored: Storage, node: int) -> bool:
    """Return whether a pointwise node stands in a run with others."""
    origin = stored.origin[node]
    if origin < 0 or stored.inside[node]:
        return origin >= 0
    return any(
        stored.inside[source] and stored.origin[source] == origin for source in stored.sources[node]
    )


def backward_peak(stored: Storage, record: Saved) -> int:
    """Return the most bytes of saved tensors and activations' gradients alive going back.

    Going back through the steps, the gradient of a tensor lives from its last reader's step to its
    own, and a saved tensor until its own step.
    """
    n = len(stored)
    owners = {stored.owner[node] for node in record.nodes}
    reads = last_reads(stored)
    alive = []
    for node, size in enumerate(stored.written):
        if size:
            alive.append(Tensor(node, reads[node], size))
            if node in owners:
                alive.append(Tensor(node, n - 1, size))
        if stored.twin[node]:
            alive.append(Tensor(node, n - 1, stored.twin[node]))
    return peak(alive) + record.extra_bytes
