"""Training networks on whole graphs with all their runs: one cycle of the learning rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from berth.pilot.errors import BerthError
from lab.ground.table import Floats
from lab.published.graph_networks.graph_data import batches
from lab.published.graph_networks.latency_network import TARGETS, Network, Shape
from lab.published.networks import seeded


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
    rise: float = 0.1


def descend(
    network: nn.Module,
    data: Sequence[Data],
    loss_of: Callable[[Data], Tensor],
    training: Training,
    advance: Callable[..., None] = lambda *_: None,
) -> list[float]:
    """AdamW over ``data``; the loss of each epoch. ``advance`` is called once an epoch."""
    loader = batches(data, training.graphs, shuffle=True)
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
    )
    steps = max(len(loader) * training.epochs, 4)  # fewer have no rise and fall
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, training.learning_rate, steps, pct_start=max(training.rise, 2 / steps)
    )
    losses = []
    network.train()
    for _ in range(training.epochs):
        total = 0.0
        for batch in loader:
            loss = loss_of(batch)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            total += loss.item()
        losses.append(total / len(loader))
        advance(losses[-1])
    network.eval()
    return losses


def answers(network: nn.Module, data: Sequence[Data], graphs: int = 64) -> Floats:
    """Return [runs, targets] predictions in the order of ``place``; labels are not looked at."""
    found: list[tuple[Tensor, Tensor]] = []
    network.eval()
    with torch.no_grad():
        for batch in batches(data, graphs):
            found.append((batch.place, network(batch).double()))
    places = torch.cat([place for place, _ in found])
    values = torch.cat([value for _, value in found])
    return np.asarray(values[torch.argsort(places)].numpy())


def masked_huber(guess: Tensor, labels: Tensor, turn: float) -> Tensor:
    """Return mean over the labels that are known (not NaN); 0 where none is."""
    known = torch.isfinite(labels)
    aim = torch.where(known, labels, guess.detach())
    loss = nn.functional.huber_loss(guess, aim, reduction="none", delta=turn) / turn
    return loss.sum() / known.sum().clamp(min=1)


def fit(
    data: Sequence[Data],
    shape: Shape,
    training: Training,
    *,
    seed: int = 0,
    advance: Callable[..., None] = lambda *_: None,
) -> tuple[Network, list[float]]:
    """Return a network that learnt these runs, and its losses. Raises BerthError without any
    label."""
    labels = torch.cat([one.labels for one in data]).double().numpy()
    known = np.isfinite(labels)
    if not known.any():
        raise BerthError("no run has a label to learn", hint="measure some: berth pilot dl")
    middle = [
        float(np.median(labels[known[:, n], n])) if known[:, n].any() else 0.0
        for n in range(len(TARGETS))
    ]
    nodes, statics, columns = (
        torch.cat([getattr(one, name) for one in data]).double().numpy()
        for name in ("x", "statics", "columns")
    )
    with seeded(seed):
        network = Network(shape, nodes, statics, columns, np.array(middle))
        losses = descend(
            network, data,
            lambda batch: masked_huber(network(batch), batch.labels, training.huber),
            training, advance,
        )  # fmt: skip
    return network, losses
