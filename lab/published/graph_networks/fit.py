"""Training: Huber's loss on logarithms, Adam, whole graphs with all their runs at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from berth.pilot.errors import BerthError
from berth.predictor.families.graph.latency.node_features import CompactGraph
from berth.predictor.families.program.ceilings import Floats
from lab.published.graph_networks.batch import together
from lab.published.graph_networks.network import (
    TARGETS,
    Network,
    Readout,
    Scales,
    Shape,
)
from lab.published.relative_networks.layers import tensor
from lab.published.relative_networks.seeded import seeded

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Training:
    """Hyper-parameters of training."""

    epochs: int = 40
    graphs: int = 16
    """In a step, with all their runs."""
    learning_rate: float = 3e-3
    """At its height: it rises for a tenth of the steps, then falls to nothing (one cycle)."""
    huber: float = 0.1
    """Where Huber's loss turns from square to straight; in logarithms, so 0.1 is 10 %."""
    weight_decay: float = 1e-4


@dataclass(frozen=True, slots=True)
class Examples:
    """Runs of graphs."""

    graphs: Sequence[CompactGraph]
    statics: Floats
    """[graphs, static features]"""
    graph: Places
    """[runs] into ``graphs``"""
    columns: Floats
    """[runs, columns]"""
    labels: Floats
    """[runs, len(TARGETS)] logarithms; NaN where nothing was measured"""

    def only(self, runs: Places) -> Examples:
        """Some of the runs; all graphs stay."""
        return Examples(
            self.graphs, self.statics, self.graph[runs], self.columns[runs], self.labels[runs]
        )


@dataclass(frozen=True, slots=True)
class Fitted:
    """A trained network with the scale of its targets."""

    network: Network
    mean: Floats
    """[len(TARGETS)] added to what the network says"""
    losses: tuple[float, ...] = field(default=())
    """Of each epoch."""

    def predict(self, examples: Examples, graphs_at_once: int = 64) -> Floats:
        """[runs, len(TARGETS)] logarithms; labels are not looked at."""
        network = self.network.eval()
        found = np.empty((len(examples.graph), len(TARGETS)))
        needed = np.unique(examples.graph)
        with torch.no_grad():
            for part in np.array_split(needed, max(1, -(-len(needed) // graphs_at_once))):
                runs = np.flatnonzero(np.isin(examples.graph, part))
                found[runs] = said(network, examples, part, runs).numpy()
        return found + self.mean


def said(network: Network, examples: Examples, graphs: Places, runs: Places) -> Tensor:
    """What the network says of ``runs``, all of which are of ``graphs`` (sorted)."""
    found: Tensor = network(
        together([examples.graphs[n] for n in graphs.tolist()]),
        tensor(examples.statics[graphs]), tensor(examples.columns[runs]),
        torch.from_numpy(np.searchsorted(graphs, examples.graph[runs])),
    )  # fmt: skip
    return found


def masked_huber(guess: Tensor, labels: Tensor, turn: float) -> Tensor:
    """Mean over the labels that are known (not NaN); 0 where none is."""
    known = torch.isfinite(labels)
    aim = torch.where(known, labels, guess.detach())
    loss = nn.functional.huber_loss(guess, aim, reduction="none", delta=turn) / turn
    return loss.sum() / known.sum().clamp(min=1)


def fit(
    examples: Examples,
    shape: Shape,
    training: Training,
    *,
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> Fitted:
    """A network that learnt these runs; ``advance`` is called once an epoch.

    Raises BerthError where no label is known.
    """
    if not np.isfinite(examples.labels).any():
        raise BerthError("no run has a label to learn", hint="measure some: berth pilot dl")
    mean = _middle(examples.labels, shape)
    used = np.unique(examples.graph)
    with seeded(seed):
        network = Network(shape, Scales(
            np.concatenate([examples.graphs[n].features for n in used]).astype(np.float64),
            examples.statics[used], examples.columns,
        ))  # fmt: skip
        shifted = replace(examples, labels=examples.labels - mean)
        losses = _descend(network, shifted, training, seed, advance)
    return Fitted(network.eval(), mean, tuple(losses))


def _middle(labels: Floats, shape: Shape) -> Floats:
    """[len(TARGETS)] medians of what is known; a sum of nodes' times needs none."""
    known = np.isfinite(labels)
    found = np.zeros(len(TARGETS))
    for n in range(shape.readout is Readout.SUM, len(TARGETS)):
        if known[:, n].any():
            found[n] = np.median(labels[known[:, n], n])
    return found


def _descend(
    network: Network,
    examples: Examples,
    training: Training,
    seed: int,
    advance: Callable[[], None],
) -> list[float]:
    order = np.argsort(examples.graph, kind="stable")
    used, starts = np.unique(examples.graph[order], return_index=True)
    runs_of = dict(zip(used.tolist(), np.split(order, starts[1:]), strict=True))
    random = np.random.default_rng(seed)
    count = -(-len(used) // training.graphs)
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
    )
    total_steps = max(count * training.epochs, 4)  # fewer have no rise and fall
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, training.learning_rate, total_steps, pct_start=max(0.1, 2 / total_steps)
    )
    losses = []
    network.train()
    for _ in range(training.epochs):
        total = 0.0
        for part in np.array_split(random.permutation(used), count):
            runs = np.concatenate([runs_of[n] for n in part.tolist()])
            guess = said(network, examples, np.sort(part), runs)
            loss = masked_huber(guess, tensor(examples.labels[runs]), training.huber)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            total += loss.item()
        losses.append(total / count)
        advance()
    return losses
