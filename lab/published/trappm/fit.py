"""Fitting the second phase of TraPPM, from nothing or from weights of another device."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from berth.predictor.families.graph.latency.features import Floats
from berth.predictor.families.graph.latency.node_features import CompactGraph
from lab.ground.table import Places
from lab.published.graph_networks.batch import together
from lab.published.relative_networks.layers import Standardise, masked_error, tensor
from lab.published.relative_networks.seeded import seeded
from lab.published.trappm.regressor import Design, Regressor, signed_log

_ROWS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Inputs:
    """What there is to know of the graphs, once for many fits."""

    graphs: Sequence[CompactGraph]
    """``compact`` for the regressor's layers or more."""
    embeddings: Floats | None
    """[graphs, width] of a frozen auto-encoder; None: the regressor alone."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What is to be learnt: one entry a row."""

    graph: Places
    """Place in ``Inputs``."""
    statics: Floats
    """[rows, any]"""
    labels: Floats
    """[rows, targets] logarithms; NaN where nobody measured."""


class Targets(Standardise):
    """Labels, not held within the range that training rows had; NaN stays."""

    def forward(self, rows: Tensor) -> Tensor:
        return (rows - self.mean) * torch.where(self.scale > 0, self.scale, 1.0)

    def undo(self, scaled: Tensor) -> Tensor:
        return scaled / torch.where(self.scale > 0, self.scale, 1.0) + self.mean


@dataclass(frozen=True, slots=True)
class Fitted:
    """A regressor with the scales of its inputs and targets."""

    network: Regressor
    inputs: Inputs
    nodes: Standardise
    frozen: Standardise | None
    statics: Standardise
    targets: Targets
    ready: dict[int, CompactGraph] = field(default_factory=dict)
    """Graphs with their features standardised, as they were needed."""

    def predict(self, graph: Places, statics: Floats) -> Floats:
        """[rows, targets] logarithms."""
        self.network.eval()
        found = []
        with torch.no_grad():
            for start in range(0, len(graph), _ROWS_AT_ONCE):
                part = slice(start, start + _ROWS_AT_ONCE)
                said = self.said(graph[part], statics[part])
                found.append(self.targets.undo(said).double().numpy())
        return np.concatenate(found)

    def said(self, graph: Places, statics: Floats) -> Tensor:
        """[rows, targets] standardised."""
        places, inverse = np.unique(graph, return_inverse=True)
        batch = together([self._ready(place) for place in places.tolist()])
        given = torch.zeros((len(graph), 0))
        if self.frozen is not None and self.inputs.embeddings is not None:
            given = self.frozen(signed_log(tensor(self.inputs.embeddings[graph])))
        said: Tensor = self.network(
            batch, torch.from_numpy(inverse.reshape(-1)), given, self.statics(tensor(statics))
        )
        return said

    def _ready(self, place: int) -> CompactGraph:
        if place not in self.ready:
            graph = self.inputs.graphs[place]
            scaled = self.nodes(torch.from_numpy(graph.features)).numpy()
            self.ready[place] = replace(graph, features=scaled)
        return self.ready[place]


def fit(
    rows: Rows,
    inputs: Inputs,
    design: Design,
    *,
    seed: int,
    start: Fitted | None = None,
) -> Fitted:
    """Fit to the labels that are there.

    ``start``: go on from another device's weights and scales, its targets shifted by the middle of
    what the rows differ from what it says of them.

    The same seed gives the same predictions. Mean squared error of logarithms, Adam (the thesis),
    its rate rising and falling once.
    """
    with seeded(seed):
        fitted = _begun(rows, inputs, design) if start is None else _copied(start, rows)
        labels = fitted.targets(tensor(rows.labels))
        optimiser = torch.optim.Adam(fitted.network.parameters(), lr=design.learning_rate)
        order = np.argsort(rows.graph, kind="stable")
        graphs, starts = np.unique(rows.graph[order], return_index=True)
        rows_of = np.split(order, starts[1:])
        steps = -(-len(graphs) // design.graphs) * design.epochs
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, max_lr=design.learning_rate, total_steps=steps + 1
        )
        for _ in range(design.epochs):
            fitted.network.train()
            order = torch.randperm(len(graphs)).numpy()
            for begin in range(0, len(order), design.graphs):
                some = np.concatenate([rows_of[n] for n in order[begin : begin + design.graphs]])
                loss = masked_error(fitted.said(rows.graph[some], rows.statics[some]), labels[some])
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
                optimiser.step()
                schedule.step()
    fitted.network.eval()
    return fitted


def _begun(rows: Rows, inputs: Inputs, design: Design) -> Fitted:
    used = np.unique(rows.graph)
    width, frozen = 0, None
    if inputs.embeddings is not None:
        width = inputs.embeddings.shape[1]
        logs = signed_log(torch.from_numpy(inputs.embeddings[used])).numpy()
        frozen = Standardise(logs)
    network = Regressor(width, rows.statics.shape[1], rows.labels.shape[1], design)
    nodes = np.concatenate([inputs.graphs[n].features for n in used.tolist()]).astype(np.float64)
    return Fitted(
        network, inputs, Standardise(nodes), frozen, Standardise(rows.statics),
        Targets(rows.labels),
    )  # fmt: skip


def _copied(start: Fitted, rows: Rows) -> Fitted:
    off = rows.labels - start.predict(rows.graph, rows.statics)
    shift = [float(np.median(c[np.isfinite(c)])) if np.isfinite(c).any() else 0.0 for c in off.T]
    targets = copy.deepcopy(start.targets)
    targets.mean += torch.tensor(shift)
    return replace(start, network=copy.deepcopy(start.network), targets=targets)
