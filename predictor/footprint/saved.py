"""Count the tensors that autograd saves for the backward pass, and a training step's peak memory.

* Matrix products, normalisations, divisions, powers and products with parameters save the
  activations that they read.
* ReLU and similar activations, sigmoid, tanh, softmax, exp and sqrt save their output.
* Sums, means, copies and scalings by constants save nothing.
* Maximum pooling saves its input and the index of each maximum (8 bytes per output element).
* Recurrent cells save their gates.
* A chain of pointwise nodes that is a function of one tensor saves that tensor.
* Operators that the catalogue lacks save all their inputs and outputs.

Source: PyTorch, tools/autograd/derivatives.yaml; TensorFlow's gradients differ only in details.
Dropout masks are not in exported graphs, so they are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.predictor.footprint.liveness import TensorLife, last_reads, peak
from berth.predictor.footprint.storage import Storage, is_linear
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.operators import OpFamily

_BY_OUTPUT = frozenset({
    "Relu", "LeakyRelu", "Clip", "Elu", "Selu", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "Exp",
    "Sqrt", "Reciprocal",
})  # fmt: skip
_NOTHING = frozenset({
    OpFamily.VIEW, OpFamily.SHAPE, OpFamily.MOVEMENT, OpFamily.SELECTION, OpFamily.RESAMPLING,
    OpFamily.QUANTISATION,
})  # fmt: skip
_MEANS = frozenset({
    "ReduceMean", "ReduceSum", "GlobalAveragePool", "AveragePool", "Mean", "Sum", "Concat",
})  # fmt: skip
_ALL = frozenset({OpFamily.UNKNOWN, OpFamily.RECURRENT})
_INDEX_BYTES = 8
_MOST_GATES = 5
_CELLS = {"GRU": 5, "LSTM": 5, "RNN": 1}
"""Elements that a recurrent cell saves per output element, as in ATen's fused cells.

An LSTM saves four gates and the cell state.
"""


@dataclass(frozen=True, slots=True)
class Saved:
    """The tensors that autograd saves in the forward pass for the backward pass."""

    nodes: frozenset[int]
    """Nodes whose output is saved; nodes with the same buffer count once."""
    extra_bytes: int
    """Bytes of maximum pooling's indices and of recurrent cells' gates."""


def saved(graph: ModelGraph, stored: Storage) -> Saved:
    """Return the tensors that autograd saves in one forward pass of a graph."""
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
        elif stored.family[node] is OpFamily.RECURRENT:
            extra += _CELLS.get(name, _MOST_GATES) * stored.written[node]
    return Saved(frozenset(saved_nodes), extra)


def _rule(family: OpFamily, name: str, alone: bool) -> tuple[bool, bool]:
    """Return two booleans: whether autograd saves an operator's inputs, and its output.

    ``alone``: the operator reads one activation and no parameter.
    """
    if name in _BY_OUTPUT:
        return False, True
    if family in _ALL:
        return True, True
    if family in _NOTHING or name in _MEANS or is_linear(name):
        return False, False
    scaled = family is OpFamily.ELEMENTWISE and alone and name in ("Mul", "Div")
    return not scaled, False


def _in_run(stored: Storage, node: int) -> bool:
    """Return whether a node is in a chain of at least two pointwise nodes."""
    origin = stored.origin[node]
    if origin < 0 or stored.inside[node]:
        return origin >= 0
    return any(
        stored.inside[source] and stored.origin[source] == origin for source in stored.sources[node]
    )


def backward_peak(stored: Storage, record: Saved) -> int:
    """Return the peak bytes of saved tensors and activations' gradients in the backward pass.

    Steps run backwards there: a tensor's gradient lives from its last reader's step to its own
    step, a saved tensor from the start to its own step.
    """
    n = len(stored)
    owners = {stored.owner[node] for node in record.nodes}
    reads = last_reads(stored)
    alive = []
    for node, size in enumerate(stored.written):
        if size:
            alive.append(TensorLife(node, reads[node], size))
            if node in owners:
                alive.append(TensorLife(node, n - 1, size))
        if stored.twin[node]:
            alive.append(TensorLife(node, n - 1, stored.twin[node]))
    return peak(alive) + record.extra_bytes
