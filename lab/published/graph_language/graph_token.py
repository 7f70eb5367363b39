"""A graph as one token: the encoder, how it is pre-trained, and the way into a language model.

Stage 1 is GraphMAE (Hou et al., KDD 2022) with the thesis's settings (section 7.4.3, Table 7.7):
half of the nodes hidden, a learnt vector in their place (a tenth of them gets another node's
features), their codes hidden once more before decoding, scaled cosine error on the hidden nodes
alone. Nodes that look alike share one row of a compact graph, so they are hidden together: a hidden
node cannot be read off its twin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data

from lab.published.graph_networks.latency_network import Encoder, EncoderSettings, Kind, mean_nodes
from lab.published.networks import perceptron


def gin(layers: int, width: int) -> Encoder:
    """Return a new encoder of the thesis's kind."""
    return Encoder(EncoderSettings(Kind.GIN, width, layers))


def codes(encoder: Encoder, batch: Data) -> Tensor:
    """Return [graphs, width] the mean of each graph's nodes (equation 7.5)."""
    return mean_nodes(encoder(batch.x, batch.edge_index), batch)


def scaled_cosine_error(guess: Tensor, truth: Tensor, power: float) -> Tensor:
    """Return mean of ``(1 - cosine)^power`` over rows (GraphMAE, equation 4)."""
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
    masked = torch.randperm(nodes)[: max(1, round(nodes * masking.ratio))]
    swaps = int(len(masked) * masking.replaced)
    mixed = masked[torch.randperm(len(masked))]
    return Hidden(masked, mixed[swaps:], mixed[:swaps], torch.randint(nodes, (swaps,)))


class MaskedAutoEncoder(nn.Module):
    """The encoder and what only pre-training needs: mask, bridge, a decoder of one GIN layer."""

    def __init__(self, encoder: Encoder, masking: Masking) -> None:
        super().__init__()
        settings = encoder.settings
        self.encoder, self.masking = encoder, masking
        self.mask = nn.Parameter(torch.zeros(1, settings.inputs))
        self.bridge = nn.Linear(settings.width, settings.width, bias=False)
        self.decoder = Encoder(replace(settings, layers=1, inputs=settings.width))
        self.restore = nn.Linear(settings.width, settings.inputs)

    def forward(self, batch: Data) -> Tensor:
        """Return the loss of one batch of graphs, masks drawn from torch's generator."""
        hidden = hide(len(batch.x), self.masking)
        masked = hidden.masked.to(batch.x.device)
        found = self.encoder(self.covered(batch.x, hidden), batch.edge_index)
        guess = self.restore(self.decoder(self.remasked(found, masked), batch.edge_index))
        return scaled_cosine_error(guess[masked], batch.x[masked], self.masking.power)

    def remasked(self, found: Tensor, masked: Tensor) -> Tensor:
        """Return [n, width] what the decoder sees: nothing of the hidden nodes' own codes."""
        bridged: Tensor = self.bridge(found)
        return bridged.index_fill(0, masked, 0.0)

    def covered(self, features: Tensor, hidden: Hidden) -> Tensor:
        """Return [n, features] with the hidden nodes replaced."""
        place = torch.arange(len(features))
        place[hidden.swapped] = hidden.donors
        blank = torch.zeros(len(features), 1, dtype=torch.bool)
        blank[hidden.blank] = True
        shown = features[place.to(features.device)]
        return torch.where(blank.to(features.device), self.mask, shown)


class Projection(nn.Module):
    """A graph's code to one token of the language model (equation 7.6)."""

    size: Tensor

    def __init__(self, codes: int, tokens: int, size: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(codes), nn.Linear(codes, tokens), nn.GELU(), nn.Linear(tokens, tokens)
        )
        self.norm = nn.LayerNorm(tokens, elementwise_affine=False)
        self.register_buffer("size", torch.tensor(size))

    def forward(self, found: Tensor) -> Tensor:
        """Return [graphs, codes] to [graphs, tokens], of root mean square ``size``."""
        scaled: Tensor = self.norm(self.layers(found)) * self.size
        return scaled


class Regressor(nn.Module):
    """Without a language model: graph code, totals and context to the logarithm of seconds."""

    def __init__(self, encoder: Encoder, statics: int, context: int, width: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.context = nn.Linear(context, width)
        self.head = perceptron((encoder.settings.width + statics + width, width, width, 1))

    def forward(self, batch: Data, at: Tensor, statics: Tensor, context: Tensor) -> Tensor:
        """Return [rows] from the batch's graphs; ``at``: [rows] the graph of each row."""
        known = torch.relu(self.context(context))
        rows = torch.cat([codes(self.encoder, batch)[at], statics, known], dim=1)
        guess: Tensor = self.head(rows)
        return guess.squeeze(1)
