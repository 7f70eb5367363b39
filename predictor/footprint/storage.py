"""Which memory each node of a graph writes to, and how large it is.

Not every node needs memory of its own: views show their input's; a bias that is added to a product
is part of the product; a run of pointwise nodes that is a function of one tensor (GELU, SiLU,
hard-swish as exporters write them) is one kernel. Where a framework has strided tensors, transposes
and slices show their input's memory, too, unless they are flattened next (that copies). A
convolution into which an exporter folded its batch normalisation is two kernels where the framework
runs the model itself, so it has a second tensor of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.predictor.graphs.graph import Integers, ModelGraph
from berth.predictor.graphs.kinds import FAMILIES
from berth.predictor.graphs.operators import Family
from berth.predictor.graphs.values import BITS, FLOATS

_POINTWISE = frozenset({Family.ACTIVATION, Family.ELEMENTWISE})
_PRODUCTS = frozenset({Family.CONVOLUTION, Family.MATMUL})
_STRIDED = frozenset({"Transpose", "Slice", "Split", "Expand"})
LONGEST_RUN = 10
"""Nodes; GELU by tanh has 8."""
_LINEAR = frozenset({"Add", "Sub", "Neg", "Identity", "Cast"})
"""Pointwise operators whose gradient needs nothing of what they read."""


@dataclass(frozen=True, slots=True)
class Storage:
    """The memory of each of a graph's [n] nodes."""

    family: tuple[Family, ...]
    operator: tuple[str, ...]
    readers: tuple[tuple[int, ...], ...]
    sources: tuple[tuple[int, ...], ...]
    """Activations read, earlier nodes only; an input of the model is no node."""
    owner: tuple[int, ...]
    """The node whose memory this one's output lies in; itself where it writes its own."""
    written: tuple[int, ...]
    """Bytes of its own output; 0 where it owns none."""
    twin: tuple[int, ...]
    """Bytes of a folded normalisation's input beside it."""
    origin: tuple[int, ...]
    """The node that a run of pointwise nodes is a function of; -1 outside of runs."""
    inside: tuple[bool, ...]
    """True for pointwise nodes that only their own run reads: they are never written."""

    def __len__(self) -> int:
        return len(self.owner)


def storage(graph: ModelGraph, *, bits: int | None = None, strided: bool, fused: bool) -> Storage:
    """Return the storage of a graph's nodes.

    ``bits``: floats are stored in so many (default: as in the file). ``strided``: the framework
    has strided tensors. ``fused``: it runs the file as it is (folded normalisations stay folded),
    as onnxruntime does; otherwise the model's own code, as PyTorch does.
    """
    n = len(graph)
    names = [graph.operators[place] for place in graph.operator.tolist()]
    family = [FAMILIES[place] for place in graph.family.tolist()]
    sources: list[list[int]] = [[] for _ in range(n)]
    readers: list[list[int]] = [[] for _ in range(n)]
    for source, target in zip(*graph.edges.tolist(), strict=True):
        sources[target].append(source)
        readers[source].append(target)
    sizes = _sizes(graph, bits)
    written = sizes.tolist()
    origin = _origins(graph, family, sources, written)
    inside = [
        origin[node] >= 0
        and bool(readers[node])
        and all(origin[reader] == origin[node] for reader in readers[node])
        for node in range(n)
    ]
    parameters = graph.node_parameters.tolist()
    read_count = graph.column("inputs").tolist()
    owner = list(range(n))
    for node in range(n):
        first = sources[node][0] if sources[node] else -1
        if first < 0:
            continue
        view = family[node] is Family.VIEW
        if strided and names[node] in _STRIDED:
            view = not any(family[reader] is Family.VIEW for reader in readers[node])
        bias = (
            names[node] == "Add" and parameters[node] > 0 and read_count[node] == 1
            and family[first] in _PRODUCTS and readers[first] == [node]
        )  # fmt: skip
        if view or bias:
            owner[node] = owner[first]
    own = [0 if owner[node] != node or inside[node] else size for node, size in enumerate(written)]
    # An inner node of a run lies where its run's source lies, for those that ask.
    for node in range(n):
        if inside[node] and owner[node] == node:
            owner[node] = owner[origin[node]]
    folded = _folded(graph, family)
    twin = [0 if fused or not folded[node] else own[node] for node in range(n)]
    return Storage(
        tuple(family), tuple(names), tuple(map(tuple, readers)), tuple(map(tuple, sources)),
        tuple(owner), tuple(own), tuple(twin), tuple(origin), tuple(inside),
    )  # fmt: skip


def _sizes(graph: ModelGraph, bits: int | None) -> Integers:
    sizes = graph.output_bytes
    if bits is None:
        return sizes
    codes = graph.kinds[:, 1].tolist()
    scale = np.array([bits / BITS[c] if c in FLOATS else 1.0 for c in codes])[graph.kind]
    scaled: Integers = (sizes * scale).astype(np.int64)
    return scaled


def _origins(
    graph: ModelGraph, family: list[Family], sources: list[list[int]], written: list[int]
) -> list[int]:
    """Return, for pointwise nodes that are a function of one tensor of their own size, its node.

    Up to ``LONGEST_RUN`` of them: a longer chain is no single function that frameworks have.
    """
    read = graph.column("inputs").tolist()
    parameters = graph.node_parameters.tolist()
    origins = [-1] * len(family)
    members: dict[int, int] = {}
    for node, kind in enumerate(family):
        before = sources[node]
        if kind not in _POINTWISE or not before or parameters[node]:
            continue
        roots = {origins[source] if origins[source] >= 0 else source for source in before}
        if len(roots) == 1 and read[node] == len(before):
            root = roots.pop()
            if written[root] == written[node] and members.get(root, 0) < LONGEST_RUN:
                origins[node] = root
                members[root] = members.get(root, 0) + 1
    return origins


def _folded(graph: ModelGraph, family: list[Family]) -> list[bool]:
    """Mark convolutions with more parameters than they store: a normalisation was folded in."""
    stored = graph.weight_bytes // 4
    more = (graph.node_parameters > stored).tolist()
    return [family[node] is Family.CONVOLUTION and more[node] for node in range(len(family))]


def is_linear(operator: str) -> bool:
    """Return whether a pointwise operator's gradient needs nothing of what it reads."""
    return operator in _LINEAR
