"""Several compact graphs as one, in tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from berth.predictor.families.graph.latency.node_features import CompactGraph


@dataclass(frozen=True, slots=True)
class GraphBatch:
    """Rows of all graphs one after the other; edges lead between rows of one graph."""

    features: Tensor
    """[rows, features] float32"""
    source: Tensor
    """[e] row that a message comes from"""
    target: Tensor
    """[e] row that it goes to"""
    times: Tensor
    """[e] how many such neighbours a node of the target's row has"""
    count: Tensor
    """[rows] nodes that share the row"""
    owner: Tensor
    """[rows] place of the row's graph"""
    graphs: int


def together(graphs: Sequence[CompactGraph]) -> GraphBatch:
    """A batch of these graphs, in this order. Raises ValueError where there is none."""
    sizes = np.array([len(graph) for graph in graphs])
    starts = np.cumsum(sizes) - sizes
    edges = np.concatenate(
        [graph.edges + start for graph, start in zip(graphs, starts, strict=True)], axis=1
    ).astype(np.int64)
    return GraphBatch(
        features=torch.from_numpy(np.concatenate([graph.features for graph in graphs])),
        source=torch.from_numpy(edges[0]),
        target=torch.from_numpy(edges[1]),
        times=torch.from_numpy(np.concatenate([graph.times for graph in graphs])),
        count=torch.from_numpy(np.concatenate([graph.count for graph in graphs])),
        owner=torch.from_numpy(np.repeat(np.arange(len(graphs)), sizes)),
        graphs=len(graphs),
    )
