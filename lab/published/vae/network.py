"""The three steps of training: calibrate on CPU rows, learn the code, learn the speedups."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from lab.published.networks import (
    Standardise,
    masked_error,
    perceptron,
    seeded,
    tensor,
)

LEAST_LOG_SIGMA = -6.0
"""Below it the likelihood of a perfect reconstruction would be infinite (theirs too)."""
_TINY = 1e-12
"""So that its logarithm has a slope."""


class CalibratedVae(nn.Module):
    """Standardised rows -> mean and log variance of the latent code -> rows."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], latent: int) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = perceptron((inputs, *hidden, 2 * latent))
        self.decoder = perceptron((latent, *reversed(hidden), inputs))

    def encode(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log variance, rows x latent each."""
        mean, log_variance = self.encoder(rows).split(self.latent, dim=1)
        return mean, log_variance.clamp(-12.0, 12.0)

    def sample(self, mean: Tensor, log_variance: Tensor) -> Tensor:
        """Return a draw of the code, differentiable."""
        return mean + torch.randn_like(mean) * (0.5 * log_variance).exp()

    def forward(self, rows: Tensor) -> Tensor:
        """Return the code's mean: what is used once trained."""
        return self.encode(rows)[0]


def reconstruction_loss(rows: Tensor, rebuilt: Tensor) -> Tensor:
    """Negative log likelihood a row under the decoder's optimal variance, nats."""
    log_sigma = 0.5 * (((rows - rebuilt) ** 2).mean() + _TINY).log()
    soft = LEAST_LOG_SIGMA + nn.functional.softplus(log_sigma - LEAST_LOG_SIGMA)
    error = 0.5 * ((rows - rebuilt) / soft.exp()) ** 2 + soft + 0.5 * math.log(2 * math.pi)
    return error.sum(dim=1).mean()


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Kullback-Leibler divergence of the code from the standard normal, nats a row."""
    each = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance)
    return each.sum(dim=1).mean()


@dataclass(frozen=True, slots=True)
class VaeDnn:
    """Sizes and schedules. None of the values left open was tuned on a held-out row."""

    latent: int = 8
    """Left open."""
    hidden: tuple[int, ...] = (64, 64)
    """Of encoder and, reversed, decoder; left open."""
    dnn: tuple[int, ...] = (1024, 1024, 1024)
    """As published."""
    calibration_epochs: int = 200
    """On rows of CPUs only."""
    vae_epochs: int = 600
    """On all rows."""
    annealed_until: float = 0.5
    """The weight of the divergence grows linearly from 0 to 1 over this share of the epochs."""
    feedback: tuple[float, float] = (0.5, 0.75)
    """Share of the epochs in which the loss of the downstream network is added."""
    feedback_every: int = 5
    """In every so-manieth epoch of these: a step of the big network costs fifty of the VAE."""
    dnn_epochs: int = 150
    """On the latent code, the encoder frozen."""
    vae_learning_rate: float = 2e-3
    dnn_learning_rate: float = 5e-4
    fewest_cpu_rows: int = 4
    """With fewer the first calibration is left out."""


class Network(nn.Module):
    """Features -> log speedups: standardise, mean of the latent code, network, rescale."""

    def __init__(self, features: Floats, log_speedup: Floats, settings: VaeDnn) -> None:
        super().__init__()
        self.standardise = Standardise(features)
        self.vae = CalibratedVae(features.shape[1], settings.hidden, settings.latent)
        self.dnn = perceptron((settings.latent, *settings.dnn, log_speedup.shape[1]))
        self.labels = Standardise(log_speedup)

    def forward(self, rows: Tensor) -> Tensor:
        return self.labels.undo(self.dnn(self.vae(self.standardise(rows))))


@dataclass(frozen=True, slots=True)
class History:
    """Loss of each epoch, for a look at whether training had settled."""

    calibration: tuple[float, ...]
    vae: tuple[float, ...]
    feedback: tuple[float, ...]
    dnn: tuple[float, ...]


def train_network(
    features: Floats, log_speedup: Floats, on_cpu: Floats, settings: VaeDnn, seed: int
) -> tuple[Network, History]:
    """Learn from rows x features and rows x platforms (NaN: no label).

    ``on_cpu`` is a mask of rows that the decoder is calibrated on first. Raises UsageError where
    there are fewer than two rows or no label at all.
    """
    if len(features) < 2 or not np.isfinite(log_speedup).any():
        raise UsageError(
            "VAE + DNN needs two rows and one label at least",
            hint="profile more workloads, or measure them on a second platform",
        )
    with seeded(seed):
        network = Network(features, log_speedup, settings)
        network.train()
        rows = network.standardise(tensor(features))
        known = torch.from_numpy(np.isfinite(log_speedup))
        labels = network.labels(tensor(log_speedup)).masked_fill(~known, torch.nan)
        cpu_rows = rows[torch.from_numpy(np.asarray(on_cpu, dtype=bool))]
        calibration: tuple[float, ...] = ()
        if len(cpu_rows) >= settings.fewest_cpu_rows:
            calibration = _calibrate(network, cpu_rows, settings)
        vae, feedback = _learn_code(network, rows, labels, settings)
        dnn = _learn_speedups(network, rows, labels, settings)
        network.eval()
    return network, History(calibration, vae, feedback, dnn)


def _vae_loss(vae: CalibratedVae, rows: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    mean, log_variance = vae.encode(rows)
    code = vae.sample(mean, log_variance)
    rebuilt = vae.decoder(code)
    return reconstruction_loss(rows, rebuilt) + weight * divergence(mean, log_variance), code


def _calibrate(network: Network, rows: Tensor, settings: VaeDnn) -> tuple[float, ...]:
    optimiser = torch.optim.Adam(network.vae.parameters(), lr=settings.vae_learning_rate)
    epochs = settings.calibration_epochs
    return _epochs(
        epochs, optimiser, lambda epoch: _vae_loss(network.vae, rows, _weight(epoch, epochs))[0]
    )


def _learn_code(
    network: Network, rows: Tensor, labels: Tensor, settings: VaeDnn
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    optimiser = torch.optim.Adam(
        [
            {"params": network.vae.parameters(), "lr": settings.vae_learning_rate},
            {"params": network.dnn.parameters(), "lr": settings.dnn_learning_rate},
        ]
    )
    first, last = (round(share * settings.vae_epochs) for share in settings.feedback)
    heard: list[float] = []

    def loss(epoch: int) -> Tensor:
        weight = _weight(epoch, settings.annealed_until * settings.vae_epochs)
        total, code = _vae_loss(network.vae, rows, weight)
        if first <= epoch < last and epoch % settings.feedback_every == 0:
            downstream = masked_error(network.dnn(code), labels)
            heard.append(float(downstream.detach()))
            total = total + downstream * labels.shape[1]
        return total

    return _epochs(settings.vae_epochs, optimiser, loss), tuple(heard)


def _learn_speedups(
    network: Network, rows: Tensor, labels: Tensor, settings: VaeDnn
) -> tuple[float, ...]:
    optimiser = torch.optim.Adam(network.dnn.parameters(), lr=settings.dnn_learning_rate)
    with torch.no_grad():
        mean, log_variance = network.vae.encode(rows)
    return _epochs(
        settings.dnn_epochs,
        optimiser,
        lambda _: masked_error(network.dnn(network.vae.sample(mean, log_variance)), labels),
    )


def _epochs(
    count: int, optimiser: torch.optim.Optimizer, loss: Callable[[int], Tensor]
) -> tuple[float, ...]:
    seen = []
    for epoch in range(count):
        optimiser.zero_grad(set_to_none=True)
        value = loss(epoch)
        torch.autograd.backward(value)
        optimiser.step()
        seen.append(float(value.detach()))
    return tuple(seen)


def _weight(epoch: int, full: float) -> float:
    return min(1.0, epoch / full) if full > 0 else 1.0
