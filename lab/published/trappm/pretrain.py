"""Phase one of TraPPM: train the auto-encoder on graphs without labels, then freeze it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from berth.predictor.families.graph.latency.features import Floats
from berth.predictor.families.graph.latency.node_features import CompactGraph
from lab.published.graph_networks.batch import together
from lab.published.relative_networks.layers import Standardise
from lab.published.relative_networks.seeded import seeded
from lab.published.trappm.links import (
    Design,
    GraphAutoEncoder,
    cross_entropy,
    edges_of,
    link_loss,
    no_edges,
    scores,
)


@dataclass(frozen=True, slots=True)
class Frozen:
    """An auto-encoder that learns no more."""

    model: GraphAutoEncoder
    losses: tuple[float, ...]
    """Mean of each epoch; empty for one as it was drawn."""

    def embeddings(self, graphs: Sequence[CompactGraph]) -> Floats:
        """[graphs, width] sums over nodes of what it says of each."""
        found = []
        with torch.no_grad():
            for graph in graphs:
                batch = together([graph])
                weighed = self.model(batch) * batch.count.unsqueeze(1)
                found.append(weighed.sum(dim=0).double().numpy())
        return np.array(found)


def pretrain(
    graphs: Sequence[CompactGraph],
    design: Design,
    *,
    seed: int,
    advance: Callable[[float], None] = lambda _: None,
) -> Frozen:
    """An auto-encoder trained on these graphs, ``compact`` for ``design.layers`` steps or more.

    The same seed gives the same one. ``advance`` is told each epoch's loss.
    """
    with seeded(seed):
        rows = np.concatenate([graph.features for graph in graphs]).astype(np.float64)
        model = GraphAutoEncoder(Standardise(rows), design)
        generator = torch.Generator().manual_seed(seed)
        optimiser = torch.optim.Adam(model.parameters(), lr=design.learning_rate)
        losses = []
        for _ in range(design.epochs):
            model.train()
            order = torch.randperm(len(graphs), generator=generator).tolist()
            total = 0.0
            for start in range(0, len(order), design.graphs):
                some = [graphs[n] for n in order[start : start + design.graphs]]
                loss = link_loss(model, together(some), generator)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
                optimiser.step()
                total += float(loss.detach()) * len(some)
            losses.append(total / len(order))
            advance(losses[-1])
    freeze(model)
    return Frozen(model, tuple(losses))


def freeze(model: GraphAutoEncoder) -> None:
    """No weight of it changes from now on, and nothing is dropped."""
    model.eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)


@dataclass(frozen=True, slots=True)
class Links:
    """How well edges are told from pairs that are none; means over graphs."""

    area_under_curve: float
    average_precision: float
    loss: float
    graphs: int


def links(
    frozen: Frozen, graphs: Sequence[CompactGraph], *, seed: int, hidden: float = 0.0
) -> Links:
    """On each graph, of its edges and as many pairs that are none.

    ``hidden``: that share of the edges passes no messages, and only those are asked for. Graphs
    with fewer than two edges or two other pairs are left out.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score  # noqa: PLC0415

    generator = torch.Generator().manual_seed(seed)
    found = []
    for graph in graphs:
        batch = together([graph])
        edges = edges_of(batch)
        others = no_edges(batch, edges.shape[1], generator)
        if hidden:
            gone = torch.rand(edges.shape[1], generator=generator) < hidden
            n = len(batch.owner)
            lost = edges[0, gone] * n + edges[1, gone]
            low = torch.minimum(batch.source, batch.target)
            high = torch.maximum(batch.source, batch.target)
            rest = ~torch.isin(low * n + high, lost)
            batch = replace(
                batch, source=batch.source[rest], target=batch.target[rest], times=batch.times[rest]
            )
            edges = edges[:, gone]
            others = others[:, : edges.shape[1]]
        if min(edges.shape[1], others.shape[1]) < 2:
            continue
        with torch.no_grad():
            said = frozen.model(batch)
            there, none = scores(said, edges), scores(said, others)
        truth = np.r_[np.ones(len(there)), np.zeros(len(none))]
        both = torch.cat([there, none]).numpy()
        found.append((
            roc_auc_score(truth, both), average_precision_score(truth, both),
            float(cross_entropy(there, none)),
        ))  # fmt: skip
    area, precision, loss = np.mean(found, axis=0)
    return Links(float(area), float(precision), float(loss), len(found))
