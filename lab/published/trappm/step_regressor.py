"""Phase two of TraPPM: two GraphSAGE layers, the frozen embedding and static features to labels.

The thesis, section 5.4.3: the sum over nodes of the layers' output, beside the sum of the frozen
embedding, beside static features, through two linear layers. Here one network has all targets and
skips those that nobody measured (the thesis: a network a target), and sums go in as signed
logarithms, because they span orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from lab.published.graph_networks.fit_network import Training, descend
from lab.published.graph_networks.latency_network import Encoder, EncoderSettings, summed_nodes
from lab.published.networks import Standardise, masked_error, seeded


@dataclass(frozen=True, slots=True)
class Design:
    """Hyper-parameters of the regressor and of its training."""

    width: int = 64
    """The thesis: 512."""
    layers: int = 2
    dropout: float = 0.05
    training: Training = field(
        default_factory=lambda: Training(epochs=30, weight_decay=0.0, rise=0.3)
    )
    """The thesis: 100 epochs at a rate of 0.001 throughout."""


class Regressor(nn.Module):
    """Graphs with runs, whose ``columns`` are static features of each run and whose ``frozen``
    [1, any] is the auto-encoder's embedding (of width 0: none) -> [runs, targets]."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, data: Sequence[Data], design: Design) -> None:
        super().__init__()
        nodes, frozen, columns, labels = (
            torch.cat([getattr(one, name) for one in data]).double().numpy()
            for name in ("x", "frozen", "columns", "labels")
        )
        self.nodes, self.columns = Standardise(nodes), Standardise(columns)
        self.frozen = Standardise(signed_log(torch.from_numpy(frozen)).numpy())
        scale = Standardise(labels)
        spread = torch.where(scale.scale > 0, 1 / scale.scale, 1.0)
        self.register_buffer("mean", scale.mean)
        self.register_buffer("deviation", spread)
        settings = EncoderSettings(width=design.width, layers=design.layers, dropout=design.dropout)
        self.encoder = Encoder(settings)
        joined = design.width + frozen.shape[1] + columns.shape[1]
        self.head = nn.Sequential(
            nn.Linear(joined, design.width), nn.ReLU(), nn.Dropout(design.dropout),
            nn.Linear(design.width, design.width), nn.ReLU(), nn.Dropout(design.dropout),
            nn.Linear(design.width, labels.shape[1]),
        )  # fmt: skip

    def forward(self, batch: Data) -> Tensor:
        """Return [runs, targets] logarithms."""
        pooled = summed_nodes(self.encoder(self.nodes(batch.x), batch.edge_index), batch)
        graph = torch.cat([signed_log(pooled), self.frozen(signed_log(batch.frozen))], dim=1)
        rows = torch.cat([graph[batch.columns_batch], self.columns(batch.columns)], dim=1)
        found: Tensor = self.head(rows) * self.deviation + self.mean
        return found

    def loss(self, batch: Data) -> Tensor:
        """Return mean squared error of standardised labels that are there."""
        return masked_error(self(batch) / self.deviation, batch.labels / self.deviation)


def fit_regressor(data: Sequence[Data], design: Design, *, seed: int) -> Regressor:
    """Fit to the labels that are there. The same seed gives the same predictions."""
    with seeded(seed):
        network = Regressor(data, design)
        descend(network, data, network.loss, design.training)
    return network


def signed_log(rows: Tensor) -> Tensor:
    """log(1 + |x|) with the sign of x."""
    return rows.sign() * rows.abs().log1p()
