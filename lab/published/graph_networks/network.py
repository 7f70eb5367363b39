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

import torch
from torch import Tensor, nn

from berth.predictor.families.graph.latency.node_features import LOG_WORK, RATES
from berth.predictor.families.program.ceilings import Floats
from lab.published.graph_networks.batch import GraphBatch
from lab.published.graph_networks.encoder import Encoder, EncoderSettings, readout
from lab.published.relative_networks.layers import Standardise, perceptron

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


@dataclass(frozen=True, slots=True)
class Scales:
    """Rows that the inputs are standardised by: those of training."""

    nodes: Floats
    """[rows, features]"""
    statics: Floats
    """[graphs, static features]"""
    columns: Floats
    """[runs, columns]"""


class Network(nn.Module):
    """Graphs and runs -> [runs, len(TARGETS)]. The first column is the logarithm of the batch."""

    def __init__(self, shape: Shape, scales: Scales) -> None:
        super().__init__()
        self.shape = shape
        self.nodes = Standardise(scales.nodes)
        self.statics = Standardise(scales.statics)
        self.columns = Standardise(scales.columns)
        self.encoder = Encoder(shape.encoder)
        width, columns = shape.encoder.width, scales.columns.shape[1]
        inputs = width + scales.statics.shape[1] + columns
        self.head = perceptron((inputs, shape.hidden, shape.hidden, len(TARGETS)))
        self.rates = Rates(width, columns, shape.rank) if shape.readout is Readout.SUM else None

    def forward(self, batch: GraphBatch, statics: Tensor, columns: Tensor, graph: Tensor) -> Tensor:
        """``statics`` [graphs, ...]; ``columns`` [runs, ...]; ``graph`` [runs] place in batch."""
        rows = self.encoder(self.nodes(batch.features), batch.source, batch.target, batch.times)
        whole = readout(rows, batch.count, batch.owner, batch.graphs)
        settings = self.columns(columns)
        found = self.heads(whole.index_select(0, graph), statics.index_select(0, graph), settings)
        if self.rates is None:
            return found
        sizes = torch.bincount(batch.owner, minlength=batch.graphs).tolist()
        order = torch.argsort(graph, stable=True)
        runs = torch.bincount(graph, minlength=batch.graphs).tolist()
        parts = zip(
            torch.split(rows, sizes), torch.split(batch.features, sizes),
            torch.split(batch.count, sizes), torch.split(settings.index_select(0, order), runs),
            torch.split(columns.index_select(0, order), runs), strict=True,
        )  # fmt: skip
        seconds = torch.cat([self.rates.seconds(*part) for part in parts])
        return summed(found, seconds.index_select(0, torch.argsort(order)))

    def one_graph(  # noqa: PLR0917 - the inputs of an ONNX file have an order
        self,
        features: Tensor,
        source: Tensor,
        target: Tensor,
        times: Tensor,
        count: Tensor,
        statics: Tensor,
        columns: Tensor,
    ) -> Tensor:
        """The same for one graph with ``statics`` [1, ...], without a loop over its runs."""
        rows = self.encoder(self.nodes(features), source, target, times)
        share = count / count.sum().clamp(min=1)
        whole = (rows * share.unsqueeze(1)).sum(0, keepdim=True)
        settings = self.columns(columns)
        runs = torch.zeros_like(columns[:, :1])
        found = self.heads(whole + runs, statics + runs, settings)
        if self.rates is None:
            return found
        return summed(found, self.rates.seconds(rows, features, count, settings, columns))

    def heads(self, whole: Tensor, statics: Tensor, settings: Tensor) -> Tensor:
        """[runs, len(TARGETS)] of readouts and statics [runs, ...]."""
        found: Tensor = self.head(torch.cat((whole, self.statics(statics), settings), dim=1))
        return found


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

    def seconds(
        self, rows: Tensor, features: Tensor, count: Tensor, settings: Tensor, columns: Tensor
    ) -> Tensor:
        """[runs] of an image: the sum over one graph's rows, each ``count`` times."""
        node_own, node_many = self._parts(self.of_node(rows))
        run_own, run_many = self._parts(self.of_run(settings))
        met = torch.matmul(run_many.transpose(0, 1), node_many.permute(1, 2, 0))
        of_node = node_own + work_of(features)
        of_run = run_own + launch_share(columns)
        log_s = of_node.t().unsqueeze(1) + of_run.t().unsqueeze(2) + met / self.rank**0.5
        each = log_s.clamp(_LEAST, _MOST).exp().sum(0)
        total: Tensor = torch.matmul(each, count.unsqueeze(1)).squeeze(1)
        return total


def work_of(features: Tensor) -> Tensor:
    """[rows, len(RATES)] logarithms of a node's flops and bytes; 0 for its one launch."""
    return torch.cat((features[:, LOG_WORK], torch.zeros_like(features[:, :1])), dim=1)


def launch_share(columns: Tensor) -> Tensor:
    """[runs, len(RATES)] what of a launch falls to an image, as a logarithm; 0 for the others."""
    nothing = torch.zeros_like(columns[:, :1])
    return torch.cat((nothing, nothing, -columns[:, :1]), dim=1)


def summed(found: Tensor, seconds: Tensor) -> Tensor:
    """These seconds in place of the latency's head."""
    return torch.cat((seconds.clamp(min=1e-30).log().unsqueeze(1), found[:, 1:]), dim=1)
