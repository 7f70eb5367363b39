"""The whole network: encoder, readout ⊕ static features ⊕ a run's columns, three layers, heads.

The thesis's PMGNS (figure 4.2). What it calls static features that belong to a run (batch) and
what it lacks (device, precision, versions) enter after the readout: a graph is encoded once for
all its runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GINConv, SAGEConv
from torch_geometric.utils import scatter

from lab.ground.table import Floats
from lab.published.graph_networks.node_features import NODE_FEATURES, STEPS
from lab.published.networks import Standardise, perceptron


class Kind(StrEnum):
    """Kinds of layers: DIPPM's, and that of GNN + language model."""

    SAGE = "sage"
    GIN = "gin"


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """Shape of an encoder. Graphs must be ``compact`` for at least ``layers`` steps."""

    kind: Kind = Kind.SAGE
    width: int = 64
    """The thesis: 512."""
    layers: int = STEPS
    dropout: float = 0.05
    inputs: int = len(NODE_FEATURES)


def _layer(kind: Kind, inputs: int, outputs: int) -> nn.Module:
    if kind is Kind.SAGE:
        return SAGEConv(inputs, outputs)
    return GINConv(perceptron((inputs, outputs, outputs)), train_eps=True)


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
        for layer, norm in zip(self.layers, self.norms, strict=True):
            rows = self.dropout(torch.relu(norm(layer(rows, edges))))
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


TARGETS = ("latency", "memory", "energy")
"""Heads, in this order: logarithms of seconds an image, bytes, joules an image."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Hyper-parameters of the network's structure."""

    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    hidden: int = 128
    """Width of the two hidden ones of three fully connected layers."""


class Network(nn.Module):
    """Graphs and runs -> [runs, len(TARGETS)]. The first column is the logarithm of the batch.

    Inputs are standardised by training's ``nodes`` [rows, ...], ``statics`` [graphs, ...] and
    ``columns`` [runs, ...]; ``mean`` [len(TARGETS)] is added to what the heads give.
    """

    mean: Tensor

    def __init__(
        self, shape: Shape, nodes: Floats, statics: Floats, columns: Floats, mean: Floats
    ) -> None:
        super().__init__()
        self.nodes, self.statics = Standardise(nodes), Standardise(statics)
        self.columns = Standardise(columns)
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.encoder = Encoder(shape.encoder)
        width, inputs = shape.encoder.width, columns.shape[1]
        joined = width + statics.shape[1] + inputs
        self.head = perceptron((joined, shape.hidden, shape.hidden, len(TARGETS)))

    def forward(self, batch: Data) -> Tensor:
        """Answer a batch of ``graph_data.batches``."""
        rows = self.encoder(self.nodes(batch.x), batch.edge_index)
        graph, settings = batch.columns_batch, self.columns(batch.columns)
        whole, statics = mean_nodes(rows, batch), self.statics(batch.statics)
        joined = torch.cat((whole[graph], statics[graph], settings), dim=1)
        found: Tensor = self.head(joined) + self.mean
        return found
