"""The whole network: encoder, readout ⊕ static features ⊕ a run's columns, three layers, heads.

The thesis's PMGNS (figure 4.2). What it calls static features that belong to a run (batch) and
what it lacks (device, precision, versions) enter after the readout: a graph is encoded once for
all its runs.

``Readout.SUM`` is ours: a model's time is the sum of its nodes' times, each the sum of flops and
bytes over rates and of a launch (the batch's share of it), with rates that a run's columns and the
node's embedding set between them. The three layers then serve the other targets alone.
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
from lab.published.graph_networks.node_features import LOG_WORK, NODE_FEATURES, RATES, STEPS
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
_LEAST, _MOST = -60.0, 20.0
"""Logarithms of a node's seconds are kept within these: nothing overflows."""


class Readout(StrEnum):
    """How a graph's latency comes of its nodes."""

    MEAN = "mean"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class Shape:
    """Hyper-parameters of the network's structure."""

    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    hidden: int = 128
    """Width of the two hidden ones of three fully connected layers."""
    readout: Readout = Readout.MEAN
    rank: int = 16
    """Of SUM: numbers of a node and of a run that meet in a rate."""


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
        self.rates = Rates(width, inputs, shape.rank) if shape.readout is Readout.SUM else None

    def forward(self, batch: Data) -> Tensor:
        """Answer a batch of ``graph_data.batches``."""
        rows = self.encoder(self.nodes(batch.x), batch.edge_index)
        graph, settings = batch.columns_batch, self.columns(batch.columns)
        whole, statics = mean_nodes(rows, batch), self.statics(batch.statics)
        found = self._heads(whole[graph], statics[graph], settings)
        if self.rates is None:
            return found
        nodes, runs = (torch.bincount(one).tolist() for one in (batch.batch, graph))
        parts = zip(
            *(torch.split(one, nodes) for one in (rows, batch.x, batch.count)),
            *(torch.split(one, runs) for one in (settings, batch.columns)), strict=True,
        )  # fmt: skip
        return self._timed(found, torch.cat([self.rates(*part) for part in parts]))

    def _heads(self, whole: Tensor, statics: Tensor, settings: Tensor) -> Tensor:
        found: Tensor = self.head(torch.cat((whole, statics, settings), dim=1)) + self.mean
        return found

    def _timed(self, found: Tensor, seconds: Tensor) -> Tensor:
        """Return the nodes' seconds in place of the latency's head."""
        log_s = seconds.clamp(min=1e-30).log().unsqueeze(1)
        return torch.cat((log_s, found[:, 1:]), dim=1)


class Rates(nn.Module):
    """Logarithms of seconds a flop, a byte, a launch: of a node's embedding and a run's columns."""

    def __init__(self, width: int, columns: int, rank: int) -> None:
        super().__init__()
        self.rank = rank
        self.of_node = nn.Linear(width, len(RATES) * (1 + rank))
        self.of_run = perceptron((columns, 64, len(RATES) * (1 + rank)))
        with torch.no_grad():
            last = self.of_run[-1].get_parameter("bias")
            last[: len(RATES)] = torch.tensor(list(RATES.values()))

    def _parts(self, made: Tensor) -> tuple[Tensor, Tensor]:
        own = made[:, : len(RATES)]
        return own, made[:, len(RATES) :].reshape(-1, len(RATES), self.rank)

    def forward(
        self, rows: Tensor, features: Tensor, count: Tensor, settings: Tensor, columns: Tensor
    ) -> Tensor:
        """Return [runs] seconds of an image: the sum over one graph's rows, each ``count``
        times."""
        node_own, node_many = self._parts(self.of_node(rows))
        run_own, run_many = self._parts(self.of_run(settings))
        met = torch.matmul(run_many.transpose(0, 1), node_many.permute(1, 2, 0))
        # A launch has no work, and the batch shares it.
        no_work, no_batch = torch.zeros_like(features[:, :1]), torch.zeros_like(columns[:, :1])
        of_node = node_own + torch.cat((features[:, LOG_WORK], no_work), dim=1)
        of_run = run_own + torch.cat((no_batch, no_batch, -columns[:, :1]), dim=1)
        log_s = of_node.t().unsqueeze(1) + of_run.t().unsqueeze(2) + met / self.rank**0.5
        each = log_s.clamp(_LEAST, _MOST).exp().sum(0)
        total: Tensor = torch.matmul(each, count.unsqueeze(1)).squeeze(1)
        return total
