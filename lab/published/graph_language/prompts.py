"""What the language model reads beside the graph token, and what it is to answer."""

from __future__ import annotations

import numpy as np

from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.summary import summarise

OPEN, CLOSE = "<graph>", "</graph>"
SUMMARISE = "Summarise the graph"
OPERATORS = 4
"""Named in a summary: those that compute most, and what little there is beside them."""


def depth(graph: ModelGraph) -> int:
    """Nodes on the longest path."""
    longest = np.ones(len(graph), np.int64)
    for source, target in graph.edges[:, np.argsort(graph.edges[1], kind="stable")].T.tolist():
        longest[target] = max(longest[target], longest[source] + 1)
    return int(longest.max())


def summary(graph: ModelGraph) -> str:
    """The text of a graph that stage 2 learns to write (thesis, section 7.7.3), at its batch."""
    rows = summarise(graph).operators[:OPERATORS]
    named = ", ".join(f"{row.operator} {row.nodes}" for row in rows)
    return (
        f"{len(graph)} nodes, {graph.edges.shape[1]} edges, depth {depth(graph)}, "
        f"{_short(graph.total_macs)} MACs, {_short(graph.parameters)} parameters: {named}"
    )


def _short(count: float) -> str:
    """Three digits and a unit: 25.6 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.3g}"
