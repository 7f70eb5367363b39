"""Find the memory buffer that each node of a graph writes to, and the buffer's size.

Not every node needs a buffer of its own. Views use their input's buffer. A bias that is added to
a matrix product is computed in the product's kernel. A chain of pointwise nodes that computes a
function of one tensor (GELU, SiLU, hard-swish as exporters write them) is one kernel. In frameworks
with strided tensors, transposes and slices use their input's buffer, unless a view follows, which
copies. A convolution into which an exporter folded its batch normalisation is two kernels when
the framework runs the original model, so it has a second buffer of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.predictor.graphs.graph import Integers, ModelGraph
from berth.predictor.graphs.kinds import FAMILIES
from berth.predictor.graphs.operators import OpFamily
from berth.predictor.graphs.values import BITS, FLOATS

_POINTWISE = frozenset({OpFamily.ACTIVATION, OpFamily.ELEMENTWISE})
_PRODUCTS = frozenset({OpFamily.CONVOLUTION, OpFamily.MATMUL})
_STRIDED = frozenset({"Transpose", "Slice", "Split", "Expand"})
LONGEST_RUN = 10
"""Largest number of nodes in a chain that counts as one kernel; GELU with tanh has 8."""
_LINEAR = frozenset({"Add", "Sub", "Neg", "Identity", "Cast"})
"""Pointwise operators whose gradient does not depend on their inputs."""


@dataclass(frozen=True, slots=True)
class Storage:
    """The memory buffers of a graph's nodes; each field has one entry per node."""

    family: tuple[OpFamily, ...]
    operator: tuple[str, ...]
    readers: tuple[tuple[int, ...], ...]
    sources: tuple[tuple[int, ...], ...]
    """Nodes whose output each node reads; inputs of the model are not nodes."""
    owner: tuple[int, ...]
    """The node that owns the buffer of each node's output: often the node itself."""
    written: tuple[int, ...]
    """Bytes of the buffer that each node owns; 0 where another node owns its buffer."""
    twin: tuple[int, ...]
    """Bytes of the input of a folded normalisation, as a second buffer of the convolution."""
    origin: tuple[int, ...]
    """The node whose output a chain of pointwise nodes is a function of; -1 outside of chains."""
    inside: tuple[bool, ...]
    """True for nodes that only nodes of the same chain read: their output is never stored."""

    def __len__(self) -> int:
        return len(self.owner)


def storage(graph: ModelGraph, *, bits: int | None = None, strided: bool, fused: bool) -> Storage:
    """Return the memory buffers of a graph's nodes.

    ``bits``: size of floats in memory (default: as in the file). ``strided``: the framework has
    strided tensors. ``fused``: the framework runs the file, as onnxruntime does, so folded
    normalisations stay folded; False: it runs the model's original code, as PyTorch does.
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
        view = family[node] is OpFamily.VIEW
        if strided and names[node] in _STRIDED:
            view = not any(family[reader] is OpFamily.VIEW for reader in readers[node])
        bias = (
            names[node] == "Add" and parameters[node] > 0 and read_count[node] == 1
            and family[first] in _PRODUCTS and readers[first] == [node]
        )  # fmt: skip
        if view or bias:
            owner[node] = owner[first]
    own = [0 if owner[node] != node or inside[node] else size for node, size in enumerate(written)]
    # The output of a node inside a chain is never stored; its owner is that of the chain's input.
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
    graph: ModelGraph, family: list[OpFamily], sources: list[list[int]], written: list[int]
) -> list[int]:
    """Return the node whose output each chain of pointwise nodes is a function of, by node.

    -1 for other nodes. A chain has at most ``LONGEST_RUN`` nodes of the same size: frameworks have
    no single kernel for longer ones.
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


def _folded(graph: ModelGraph, family: list[OpFamily]) -> list[bool]:
    """Return, for each node, whether it is a convolution with a folded batch normalisation.

    Such a convolution has more parameters than the file stores for it.
    """
    stored = graph.weight_bytes // 4
    more = (graph.node_parameters > stored).tolist()
    return [family[node] is OpFamily.CONVOLUTION and more[node] for node in range(len(family))]


def is_linear(operator: str) -> bool:
    return operator in _LINEAR
