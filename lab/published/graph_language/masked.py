"""Stage 1: the encoder learns graphs by restoring node features that were hidden from it.

GraphMAE (Hou et al., KDD 2022) with the thesis's settings (section 7.4.3, Table 7.7): half of the
nodes hidden, a learnt vector in their place (a tenth of them gets another node's features), their
codes hidden once more before decoding, scaled cosine error on the hidden nodes alone.

Nodes that look alike share one row of a compact graph, so they are hidden together: a hidden node
cannot be read off its twin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from lab.published.graph_networks.batch import GraphBatch
from lab.published.graph_networks.encoder import Encoder, EncoderSettings
from lab.published.graph_networks.layers import Kind


def gin(layers: int, width: int) -> Encoder:
    """A new encoder of the thesis's kind."""
    return Encoder(EncoderSettings(Kind.GIN, width, layers))


def scaled_cosine_error(guess: Tensor, truth: Tensor, power: float) -> Tensor:
    """Mean of ``(1 - cosine)^power`` over rows (GraphMAE, equation 4)."""
    return ((1 - functional.cosine_similarity(guess, truth, dim=-1)) ** power).mean()


@dataclass(frozen=True, slots=True)
class Masking:
    """What is hidden, and how errors count."""

    ratio: float = 0.5
    replaced: float = 0.1
    """Share of the hidden nodes that get another node's features instead of the learnt vector."""
    power: float = 2.0


@dataclass(frozen=True, slots=True)
class Hidden:
    """Places of nodes."""

    masked: Tensor
    """All that are hidden."""
    blank: Tensor
    """Of them, those that get the learnt vector."""
    swapped: Tensor
    """Of them, those that get the features of ``donors``."""
    donors: Tensor


def hide(nodes: int, masking: Masking) -> Hidden:
    """Draw from torch's generator; at least one node is hidden."""
    order = torch.randperm(nodes)
    masked = order[: max(1, round(nodes * masking.ratio))]
    swaps = int(len(masked) * masking.replaced)
    mixed = masked[torch.randperm(len(masked))]
    donors = torch.randint(nodes, (swaps,))
    return Hidden(masked, mixed[swaps:], mixed[:swaps], donors)


class MaskedAutoEncoder(nn.Module):
    """The encoder and what only pre-training needs: mask, bridge, a decoder of one GIN layer."""

    def __init__(self, encoder: Encoder, masking: Masking) -> None:
        super().__init__()
        settings = encoder.settings
        self.encoder = encoder
        self.masking = masking
        self.mask = nn.Parameter(torch.zeros(1, settings.inputs))
        self.bridge = nn.Linear(settings.width, settings.width, bias=False)
        self.decoder = Encoder(replace(settings, layers=1, inputs=settings.width))
        self.restore = nn.Linear(settings.width, settings.inputs)

    def forward(self, batch: GraphBatch) -> Tensor:
        """The loss of one batch of graphs, masks drawn from torch's generator."""
        hidden = hide(len(batch.features), self.masking)
        masked = hidden.masked.to(batch.features.device)
        shown = replace(batch, features=self.covered(batch.features, hidden))
        again = self.remasked(self.encoder.nodes(shown), masked)
        guess = self.restore(self.decoder.nodes(replace(batch, features=again)))
        return scaled_cosine_error(guess[masked], batch.features[masked], self.masking.power)

    def remasked(self, codes: Tensor, masked: Tensor) -> Tensor:
        """[n, width] what the decoder sees: nothing of the hidden nodes' own codes."""
        bridged: Tensor = self.bridge(codes)
        return bridged.index_fill(0, masked, 0.0)

    def covered(self, features: Tensor, hidden: Hidden) -> Tensor:
        """[n, features] with the hidden nodes replaced."""
        place = torch.arange(len(features))
        place[hidden.swapped] = hidden.donors
        blank = torch.zeros(len(features), 1, dtype=torch.bool)
        blank[hidden.blank] = True
        shown = features[place.to(features.device)]
        return torch.where(blank.to(features.device), self.mask, shown)
