"""The graph auto-encoder: four GraphSAGE layers, and an inner product that predicts edges.

Kipf and Welling, "Variational graph auto-encoders" (2016); the thesis, section 5.4.2 and figure
5.2: dropout 0.5, width 512, binary cross entropy of edges against as many pairs that are none.
Layers are those of ``graph_networks`` (layer where the thesis has batch normalisation: statistics
of small batches of unlike graphs say little). Graphs are ``compact``: nodes that the encoder could
not tell apart are one, so that no pair is asked for twice with different answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GAE
from torch_geometric.utils import batched_negative_sampling, coalesce

from lab.ground.table import Floats
from lab.published.graph_networks.fit_network import Training, descend
from lab.published.graph_networks.latency_network import Encoder, EncoderSettings
from lab.published.networks import Standardise, seeded


@dataclass(frozen=True, slots=True)
class Design:
    """Hyper-parameters of the auto-encoder and of its training."""

    width: int = 128
    """The thesis: 512."""
    layers: int = 4
    dropout: float = 0.5
    training: Training = field(
        default_factory=lambda: Training(
            epochs=20, graphs=8, learning_rate=2e-3, weight_decay=0.0, rise=0.3
        )
    )
    """The thesis: 400 epochs at a rate of 0.0005, on an A100. No epochs: as it was drawn."""


class NodeEncoder(nn.Module):
    """Nodes -> embeddings whose inner products are high where an edge is."""

    def __init__(self, nodes: Floats, design: Design) -> None:
        super().__init__()
        self.scale = Standardise(nodes)
        settings = EncoderSettings(width=design.width, layers=design.layers, dropout=design.dropout)
        self.encoder = Encoder(settings)
        # The encoder's output is rectified: its inner products alone are never negative, and no
        # pair could be predicted to have no edge.
        self.latent = nn.Linear(design.width, design.width)

    def forward(self, rows: Tensor, edges: Tensor) -> Tensor:
        """Return [rows, width]"""
        found: Tensor = self.latent(self.encoder(self.scale(rows), edges))
        return found


class InnerProduct(nn.Module):
    """Chance of an edge: the inner product over the root of the width."""

    def forward(self, embedding: Tensor, pairs: Tensor, sigmoid: bool = True) -> Tensor:
        """Return [pairs]"""
        inner = (embedding[pairs[0]] * embedding[pairs[1]]).sum(dim=1) / embedding.shape[1] ** 0.5
        return inner.sigmoid() if sigmoid else inner


def auto_encoder(data: Sequence[Data], design: Design) -> GAE:
    """Return the network as it was drawn, for graphs ``compact`` for ``design.layers`` steps or
    more."""
    nodes = torch.cat([one.x for one in data]).double().numpy()
    return GAE(NodeEncoder(nodes, design), InnerProduct())


def pairs(batch: Data) -> tuple[Tensor, Tensor]:
    """([2, e] each edge once in either direction, as many pairs of one graph that are none).

    Fewer of the second where a graph has hardly any; neither in a graph of one node.
    """
    edges = coalesce(batch.edge_index)
    if not edges.numel():
        return edges, edges
    return edges, batched_negative_sampling(edges, batch.batch, force_undirected=True)


def link_loss(model: GAE, batch: Data) -> Tensor:
    """Return the loss of all edges of a batch and as many pairs that are none."""
    embedding = model.encode(batch.x, batch.edge_index)
    edges, others = pairs(batch)
    if not (edges.numel() and others.numel()):
        return 0 * embedding.sum()
    found: Tensor = model.recon_loss(embedding, edges, others)
    return found


@dataclass(frozen=True, slots=True)
class Frozen:
    """An auto-encoder that learns no more."""

    model: GAE
    losses: tuple[float, ...]
    """Mean of each epoch; empty for one as it was drawn."""

    def embeddings(self, data: Sequence[Data]) -> Floats:
        """Return [graphs, width] sums over nodes of their embeddings."""
        with torch.no_grad():
            return np.array([
                (self.model.encode(one.x, one.edge_index) * one.count[:, None]).sum(0).numpy()
                for one in data
            ], np.float64)  # fmt: skip


def pretrain(
    data: Sequence[Data],
    design: Design,
    *,
    seed: int,
    advance: Callable[..., None] = lambda *_: None,
) -> Frozen:
    """Trained on these graphs, then frozen. The same seed gives the same one."""
    with seeded(seed):
        model = auto_encoder(data, design)
        losses = descend(model, data, lambda b: link_loss(model, b), design.training, advance)
    model.requires_grad_(requires_grad=False)
    return Frozen(model.eval(), tuple(losses))


@dataclass(frozen=True, slots=True)
class Links:
    """How well edges are separated from pairs that are none; means over graphs."""

    auc: float
    """Area under the curve."""
    ap: float
    """Average precision."""
    loss: float
    graphs: int


def links(frozen: Frozen, data: Sequence[Data], *, seed: int) -> Links:
    """Score, on each graph, its edges and as many pairs that are none.

    Graphs with fewer than two edges or two other pairs are left out.
    """
    found = []
    with seeded(seed), torch.no_grad():
        for one in data:
            batch = Batch.from_data_list([one])
            edges, others = pairs(batch)
            if min(edges.shape[1], others.shape[1]) < 2:
                continue
            embedding = frozen.model.encode(batch.x, batch.edge_index)
            loss = frozen.model.recon_loss(embedding, edges, others)
            found.append((*frozen.model.test(embedding, edges, others), float(loss)))
    auc, ap, loss = np.mean(found, axis=0).tolist()
    return Links(auc, ap, loss, len(found))
