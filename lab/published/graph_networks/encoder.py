"""Nodes to embeddings, and a graph's embedding from its nodes'."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv
from torch_geometric.utils import scatter

from lab.published.graph_networks.node_features import NODE_FEATURES, STEPS
from lab.published.networks import perceptron


class Kind(StrEnum):
    """Kinds of network: those of the thesis's Table 4.4."""

    SAGE = "sage"
    GCN = "gcn"
    GAT = "gat"
    GIN = "gin"
    MLP = "mlp"


HEADS = 4
_LOOPED = (Kind.GCN, Kind.GAT)
"""Kinds that add each node to its neighbours. An edge of a shared row to itself leads to another
of its nodes, so the layers must not take it for that."""


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """Shape of an encoder. Graphs must be ``compact`` for at least ``layers`` steps."""

    kind: Kind = Kind.SAGE
    width: int = 64
    """The thesis: 512. Of GAT a multiple of its 4 heads."""
    layers: int = STEPS
    dropout: float = 0.05
    inputs: int = len(NODE_FEATURES)


def _layer(kind: Kind, inputs: int, outputs: int) -> nn.Module:
    match kind:
        case Kind.SAGE:
            return SAGEConv(inputs, outputs)
        case Kind.GCN:
            return GCNConv(inputs, outputs, add_self_loops=False)
        case Kind.GAT:
            return GATConv(inputs, outputs // HEADS, HEADS, add_self_loops=False)
        case Kind.GIN:
            return GINConv(perceptron((inputs, outputs, outputs)), train_eps=True)
        case Kind.MLP:
            return nn.Linear(inputs, outputs)


class Encoder(nn.Module):
    """Layers of message passing, each with layer normalisation, ReLU and dropout."""

    def __init__(self, settings: EncoderSettings) -> None:
        super().__init__()
        self.settings = settings
        widths = [settings.inputs, *[settings.width] * settings.layers]
        self.layers = nn.ModuleList(_layer(settings.kind, a, b) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(nn.LayerNorm(settings.width) for _ in self.layers)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, rows: Tensor, edges: Tensor) -> Tensor:
        """Return [rows, width] of standardised features [rows, inputs]."""
        kind = self.settings.kind
        if kind in _LOOPED:
            edges = torch.cat(
                (edges, torch.arange(rows.shape[0], device=rows.device).expand(2, -1)), dim=1
            )
        for layer, norm in zip(self.layers, self.norms, strict=True):
            made = layer(rows) if kind is Kind.MLP else layer(rows, edges)
            rows = self.dropout(torch.relu(norm(made)))
        return rows


def summed_nodes(rows: Tensor, batch: Data) -> Tensor:
    """Return [graphs, width] sum over each graph's nodes."""
    weighed = rows * batch.count.unsqueeze(1)
    found: Tensor = scatter(weighed, batch.batch, dim_size=batch.num_graphs)
    return found


def mean_nodes(rows: Tensor, batch: Data) -> Tensor:
    """Return [graphs, width] mean over each graph's nodes (thesis, equation 7.5)."""
    nodes = scatter(batch.count, batch.batch, dim_size=batch.num_graphs)
    return summed_nodes(rows, batch) / nodes.clamp(min=1).unsqueeze(1)
