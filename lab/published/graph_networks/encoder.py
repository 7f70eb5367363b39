"""Nodes to embeddings, and a graph's embedding from its nodes'."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from berth.predictor.families.graph.latency.node_features import NODE_FEATURES, STEPS
from lab.published.graph_networks.batch import GraphBatch
from lab.published.graph_networks.layers import LAYERS, Kind


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """Shape of an encoder. Graphs must be ``compact`` for at least ``layers`` steps."""

    kind: Kind = Kind.SAGE
    width: int = 64
    """The thesis: 512. Of GAT a multiple of its 4 heads."""
    layers: int = STEPS
    dropout: float = 0.05
    inputs: int = len(NODE_FEATURES)


class Encoder(nn.Module):
    """Layers of message passing, each with layer normalisation, ReLU and dropout."""

    def __init__(self, settings: EncoderSettings) -> None:
        super().__init__()
        self.settings = settings
        widths = [settings.inputs, *[settings.width] * settings.layers]
        made = LAYERS[settings.kind]
        self.layers = nn.ModuleList(made(a, b) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(nn.LayerNorm(settings.width) for _ in self.layers)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, rows: Tensor, source: Tensor, target: Tensor, times: Tensor) -> Tensor:
        """[rows, width] of standardised features [rows, inputs]."""
        for layer, norm in zip(self.layers, self.norms, strict=True):
            rows = self.dropout(torch.relu(norm(layer(rows, source, target, times))))
        return rows

    def nodes(self, batch: GraphBatch) -> Tensor:
        """[rows, width] of a batch whose features are standardised."""
        rows: Tensor = self(batch.features, batch.source, batch.target, batch.times)
        return rows


def readout(rows: Tensor, count: Tensor, owner: Tensor, graphs: int) -> Tensor:
    """[graphs, width] mean over each graph's nodes, in whatever order they stand."""
    total = rows.new_zeros(graphs, rows.shape[1])
    total = total.index_add(0, owner, rows * count.unsqueeze(1))
    nodes = rows.new_zeros(graphs).index_add(0, owner, count)
    return total / nodes.clamp(min=1).unsqueeze(1)
