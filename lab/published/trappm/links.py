"""The graph auto-encoder: four GraphSAGE layers, and an inner product that says where edges are.

Kipf and Welling, "Variational graph auto-encoders" (2016); the thesis, section 5.4.2 and figure
5.2: dropout 0.5, width 512, binary cross entropy of edges against as many pairs that are none.
Layers are those of ``networks`` (layer where the thesis has batch normalisation: statistics of
small batches of unlike graphs say little). Graphs are ``compact``: nodes that the encoder could
not tell apart are one, so that no pair is asked for twice with different answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from berth.predictor.families.graph.latency.node_features import NODE_FEATURES
from lab.published.graph_networks.batch import GraphBatch
from lab.published.graph_networks.encoder import Encoder, EncoderSettings
from lab.published.graph_networks.layers import Kind
from lab.published.relative_networks.layers import Standardise

_TRIES = 4


@dataclass(frozen=True, slots=True)
class Design:
    """Hyper-parameters of the auto-encoder and of its training."""

    width: int = 128
    """The thesis: 512."""
    layers: int = 4
    dropout: float = 0.5
    learning_rate: float = 1e-3
    """The thesis: 0.0005."""
    epochs: int = 20
    """The thesis: 400, on an A100. 0: an encoder as it was drawn."""
    graphs: int = 8
    """In a step."""


class GraphAutoEncoder(nn.Module):
    """Nodes -> embeddings whose inner products are high where an edge is."""

    def __init__(self, scale: Standardise, design: Design) -> None:
        super().__init__()
        self.scale = scale
        self.encoder = Encoder(
            EncoderSettings(
                Kind.SAGE, design.width, design.layers, design.dropout, len(NODE_FEATURES)
            )
        )
        # What the encoder says is rectified: its inner products alone are never negative, and no
        # pair could be told to have no edge.
        self.latent = nn.Linear(design.width, design.width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """[rows, width]"""
        said = self.encoder(self.scale(batch.features), batch.source, batch.target, batch.times)
        found: Tensor = self.latent(said)
        return found


def scores(embedding: Tensor, pairs: Tensor) -> Tensor:
    """[pairs] logits of there being an edge: the inner product over the root of the width."""
    width: int = embedding.shape[1]
    inner = (embedding[pairs[0]] * embedding[pairs[1]]).sum(dim=1)
    logits: Tensor = inner / width**0.5
    return logits


def edges_of(batch: GraphBatch) -> Tensor:
    """[2, e] each joined pair of rows once, the lower first (messages go both ways)."""
    low = torch.minimum(batch.source, batch.target)
    high = torch.maximum(batch.source, batch.target)
    found: Tensor = torch.unique(torch.stack([low, high]), dim=1)
    return found


def no_edges(batch: GraphBatch, count: int, generator: torch.Generator) -> Tensor:
    """[2, <= count] pairs of different rows of one graph that no edge joins, drawn at random.

    Fewer where a graph has hardly any such pairs; none in a graph of one node.
    """
    n = len(batch.owner)
    sizes = torch.bincount(batch.owner, minlength=batch.graphs)
    starts = torch.cumsum(sizes, 0) - sizes
    taken = torch.unique(batch.source * n + batch.target)
    found = torch.zeros((2, 0), dtype=torch.long)
    for _ in range(_TRIES):
        first = torch.randint(n, (2 * count,), generator=generator)
        owner = batch.owner[first]
        second = (torch.rand(2 * count, generator=generator) * sizes[owner]).long() + starts[owner]
        kept = ~torch.isin(first * n + second, taken) & (first != second)
        found = torch.cat([found, torch.stack([first, second])[:, kept]], dim=1)
        if found.shape[1] >= count:
            break
    return found[:, :count]


def cross_entropy(there: Tensor, none: Tensor) -> Tensor:
    """Mean over edges plus mean over pairs that are none, of logits; 0 for what is empty.

    The thesis's loss (section 5.4.2) without its epsilon, which logits need not.
    """
    zero = torch.zeros(())
    first = -nn.functional.logsigmoid(there).mean() if there.numel() else zero
    second = -nn.functional.logsigmoid(-none).mean() if none.numel() else zero
    return first + second


def link_loss(model: GraphAutoEncoder, batch: GraphBatch, generator: torch.Generator) -> Tensor:
    """The loss of all edges of a batch and as many pairs that are none."""
    embedding = model(batch)
    edges = edges_of(batch)
    others = no_edges(batch, edges.shape[1], generator)
    # A graph of one node has neither: its loss is 0, and can still be gone back from.
    loss = cross_entropy(scores(embedding, edges), scores(embedding, others))
    whole: Tensor = loss + 0 * embedding.sum()
    return whole
