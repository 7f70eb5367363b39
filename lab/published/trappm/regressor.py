"""Phase two of TraPPM: two GraphSAGE layers, the frozen embedding and static features to labels.

The thesis, section 5.4.3: the sum over nodes of what the layers say, beside the sum of the frozen
embedding, beside static features, through two linear layers. Here one network has all targets and
skips those that nobody measured (the thesis: a network a target), and sums go in as signed
logarithms, because they span orders of magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lab.published.graph_networks.batch import GraphBatch
from lab.published.graph_networks.encoder import Encoder, EncoderSettings
from lab.published.graph_networks.layers import Kind


@dataclass(frozen=True, slots=True)
class Design:
    """Hyper-parameters of the regressor and of its training."""

    width: int = 64
    """The thesis: 512."""
    layers: int = 2
    dropout: float = 0.05
    learning_rate: float = 3e-3
    """At its height: it rises and falls once (the thesis: 0.001 throughout)."""
    epochs: int = 30
    """The thesis: 100."""
    graphs: int = 16
    """In a step, each with all its rows."""


class Regressor(nn.Module):
    """A batch of graphs, each row's graph, frozen embedding and static features -> targets."""

    def __init__(self, frozen: int, statics: int, targets: int, design: Design) -> None:
        super().__init__()
        self.encoder = Encoder(
            EncoderSettings(Kind.SAGE, design.width, design.layers, design.dropout)
        )
        joined = design.width + frozen + statics
        self.head = nn.Sequential(
            nn.Linear(joined, design.width), nn.ReLU(), nn.Dropout(design.dropout),
            nn.Linear(design.width, design.width), nn.ReLU(), nn.Dropout(design.dropout),
            nn.Linear(design.width, targets),
        )  # fmt: skip

    def forward(self, batch: GraphBatch, place: Tensor, frozen: Tensor, statics: Tensor) -> Tensor:
        """[rows, targets]; ``place`` [rows] of each row's graph in the batch."""
        said = self.encoder.nodes(batch)
        weighed = said * batch.count.unsqueeze(1)
        pooled = torch.zeros((batch.graphs, said.shape[1])).index_add(0, batch.owner, weighed)
        found: Tensor = self.head(torch.cat([signed_log(pooled)[place], frozen, statics], dim=1))
        return found


def signed_log(rows: Tensor) -> Tensor:
    """log(1 + |x|) with the sign of x."""
    return rows.sign() * rows.abs().log1p()
