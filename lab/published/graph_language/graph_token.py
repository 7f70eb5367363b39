"""A graph as one token: its encoder, how that is pre-trained, and the way into a language model.

Stage 1 is GraphMAE (Hou et al., KDD 2022) with the thesis's settings (section 7.4.3, Table 7.7).
Half of the nodes are hidden behind a learnt vector, or behind another node's features (a tenth of
them). Their codes are hidden again before decoding. The loss is the scaled cosine error of the
hidden nodes. Nodes that look alike share a row of a compact graph and are hidden together, so that
a hidden node cannot be read off its twin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data

from lab.published.graph_networks.latency_network import Encoder, EncoderSettings, Kind, mean_nodes


def gin(layers: int, width: int) -> Encoder:
    """Return an untrained GIN encoder, the thesis's kind."""
    return Encoder(EncoderSettings(Kind.GIN, width, layers))


def codes(encoder: Encoder, batch: Data) -> Tensor:
    """Return [graphs, width] the mean over each graph's nodes (thesis, equation 7.5)."""
    return mean_nodes(encoder(batch.x, batch.edge_index), batch)


def scaled_cosine_error(guess: Tensor, truth: Tensor, power: float) -> Tensor:
    """Return the mean over rows of ``(1 - cosine)^power`` (GraphMAE, equation 4)."""
    return ((1 - functional.cosine_similarity(guess, truth, dim=-1)) ** power).mean()


@dataclass(frozen=True, slots=True)
class Masking:
    """How many nodes are hidden, and how their errors count."""

    ratio: float = 0.5
    replaced: float = 0.1
    """Share of the hidden nodes that get another node's features in place of the learnt vector."""
    power: float = 2.0
    """Exponent of the scaled cosine error."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """Which nodes are hidden, by their places."""

    masked: Tensor
    """All hidden nodes: ``blank`` and ``swapped``."""
    blank: Tensor
    """Hidden behind the learnt vector."""
    swapped: Tensor
    """Hidden behind the features of ``donors``."""
    donors: Tensor


def hide(nodes: int, masking: Masking) -> Hidden:
    """Draw the hidden nodes from torch's generator; at least one is hidden."""
    masked = torch.randperm(nodes)[: max(1, round(nodes * masking.ratio))]
    swaps = int(len(masked) * masking.replaced)
    mixed = masked[torch.randperm(len(masked))]
    return Hidden(masked, mixed[swaps:], mixed[:swaps], torch.randint(nodes, (swaps,)))


class MaskedAutoEncoder(nn.Module):
    """The encoder with what only pre-training needs: mask, bridge, a decoder of one GIN layer."""

    def __init__(self, encoder: Encoder, masking: Masking) -> None:
        super().__init__()
        settings = encoder.settings
        self.encoder, self.masking = encoder, masking
        self.mask = nn.Parameter(torch.zeros(1, settings.inputs))
        self.bridge = nn.Linear(settings.width, settings.width, bias=False)
        self.decoder = Encoder(replace(settings, layers=1, inputs=settings.width))
        self.restore = nn.Linear(settings.width, settings.inputs)

    def forward(self, batch: Data) -> Tensor:
        """Return the loss of a batch of graphs; masks are drawn from torch's generator."""
        hidden = hide(len(batch.x), self.masking)
        masked = hidden.masked.to(batch.x.device)
        encoded = self.encoder(self.covered(batch.x, hidden), batch.edge_index)
        guess = self.restore(self.decoder(self.remasked(encoded, masked), batch.edge_index))
        return scaled_cosine_error(guess[masked], batch.x[masked], self.masking.power)

    def remasked(self, encoded: Tensor, masked: Tensor) -> Tensor:
        """Return [nodes, width] what the decoder sees: zeros for the hidden nodes."""
        bridged: Tensor = self.bridge(encoded)
        return bridged.index_fill(0, masked, 0.0)

    def covered(self, features: Tensor, hidden: Hidden) -> Tensor:
        """Return [nodes, features] with the hidden nodes' features replaced."""
        place = torch.arange(len(features))
        place[hidden.swapped] = hidden.donors
        blank = torch.zeros(len(features), 1, dtype=torch.bool)
        blank[hidden.blank] = True
        shown = features[place.to(features.device)]
        return torch.where(blank.to(features.device), self.mask, shown)


class Projection(nn.Module):
    """From a graph's code to one token of the language model (thesis, equation 7.6)."""

    size: Tensor

    def __init__(self, codes: int, tokens: int, size: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(codes), nn.Linear(codes, tokens), nn.GELU(), nn.Linear(tokens, tokens)
        )
        self.norm = nn.LayerNorm(tokens, elementwise_affine=False)
        self.register_buffer("size", torch.tensor(size))

    def forward(self, graph_codes: Tensor) -> Tensor:
        """Return [graphs, token width] of root mean square ``size``, from [graphs, code width]."""
        scaled: Tensor = self.norm(self.layers(graph_codes)) * self.size
        return scaled
