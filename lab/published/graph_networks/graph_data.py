"""Compact graphs and their runs as torch-geometric's data."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from lab.ground.table import Floats, Places
from lab.published.graph_networks.node_features import CompactGraph
from lab.published.networks import tensor


def data_of(graph: CompactGraph) -> Data:
    """``x`` [rows, features], ``edge_index``, ``count`` [rows] nodes that share the row.

    An edge that stands for several neighbours is there as often: every layer then gives a shared
    row what it would give each of its nodes.
    """
    edges = np.repeat(graph.edges.astype(np.int64), graph.times.astype(np.int64), axis=1)
    return Data(
        x=torch.from_numpy(graph.features), edge_index=torch.from_numpy(edges),
        count=torch.from_numpy(graph.count),
    )  # fmt: skip


def with_runs(
    graphs: Sequence[Data],
    graph: Places,
    *,
    statics: Floats,
    columns: Floats,
    labels: Floats,
) -> list[Data]:
    """The graphs that have runs, each with its own: ``columns``, ``labels`` [runs, ...] and their
    ``place``; ``graph`` [runs] says whose, ``statics`` [graphs, ...] is of the graph."""
    found = []
    for place in np.unique(graph).tolist():
        own = np.flatnonzero(graph == place)
        one = copy.copy(graphs[place])
        one.statics, one.place = tensor(statics[[place]]), torch.from_numpy(own)
        one.columns, one.labels = tensor(columns[own]), tensor(labels[own])
        found.append(one)
    return found


def batches(data: Sequence[Data], size: int, *, shuffle: bool = False) -> Any:
    """Batches of so many graphs; ``columns_batch`` is the graph of each run."""
    return DataLoader(list(data), size, shuffle=shuffle, follow_batch=["columns"])
