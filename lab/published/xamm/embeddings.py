"""Learning an embedding: sequential attention, and the kinds that the paper compares it with."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from berth.predictor.core.arrays import Floats
from lab.published.relative_networks.attention import Attention, SequentialAttention
from lab.published.relative_networks.calibrated import (
    CalibratedVae,
    divergence,
    reconstruction_loss,
)
from lab.published.relative_networks.layers import (
    Standardise,
    masked_error,
    perceptron,
    tensor,
)
from lab.published.relative_networks.seeded import seeded
from lab.published.xamm.choices import WIDTH, Embedding

PUBLISHED = Attention()
HIDDEN = (64, 32)
EPOCHS = 300
LEARNING_RATE = 2e-3
"""Of NN, AE and VAE; attention has its library's."""


class Embedder(nn.Module):
    """Features in their own units -> embedding."""

    def __init__(self, standardise: Standardise, encoder: nn.Module) -> None:
        super().__init__()
        self.standardise = standardise
        self.encoder = encoder

    def forward(self, rows: Tensor) -> Tensor:
        made: Tensor = self.encoder(self.standardise(rows))
        return made


def learn(
    kind: Embedding,
    features: Floats,
    labels: Floats,
    seed: int,
    attention: Attention = PUBLISHED,
) -> Embedder:
    """An embedding of rows x features; attention and NN learn it by predicting ``labels``.

    ``labels``: rows x targets, NaN where not known; AE and VAE rebuild the features instead.
    """
    with seeded(seed):
        standardise = Standardise(features)
        rows = standardise(tensor(features))
        known = torch.isfinite(tensor(labels))
        goals = Standardise(labels)(tensor(labels)).masked_fill(~known, torch.nan)
        encoder = (
            _attention(rows, goals, attention)
            if kind is Embedding.ATTENTION
            else _LEARN[kind](rows, goals)
        )
        made = Embedder(standardise, encoder)
        made.eval()
    return made


def _raw(_rows: Tensor, _goals: Tensor) -> nn.Module:
    return nn.Identity()


def _attention(rows: Tensor, goals: Tensor, settings: Attention) -> nn.Module:
    encoder = SequentialAttention(rows.shape[1], settings)
    head = nn.Linear(settings.width, goals.shape[1], bias=False)
    parameters = [*encoder.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=settings.learning_rate)
    for _ in range(settings.epochs):
        for chosen in torch.split(torch.randperm(len(rows)), settings.batch):
            if len(chosen) < 2:
                continue  # one row has no variance to normalise by
            optimiser.zero_grad(set_to_none=True)
            embedding, _, entropy = encoder.attended(rows[chosen])
            loss = masked_error(head(embedding), goals[chosen]) + settings.sparsity * entropy
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(parameters, settings.clip)
            optimiser.step()
    return encoder


def _nn(rows: Tensor, goals: Tensor) -> nn.Module:
    encoder = nn.Sequential(*perceptron((rows.shape[1], *HIDDEN, WIDTH)), nn.ReLU())
    head = nn.Linear(WIDTH, goals.shape[1])
    _descend([encoder, head], lambda _: masked_error(head(encoder(rows)), goals))
    return encoder


def _ae(rows: Tensor, _goals: Tensor) -> nn.Module:
    encoder = perceptron((rows.shape[1], *HIDDEN, WIDTH))
    decoder = perceptron((WIDTH, *reversed(HIDDEN), rows.shape[1]))
    _descend([encoder, decoder], lambda _: ((decoder(encoder(rows)) - rows) ** 2).mean())
    return encoder


def _vae(rows: Tensor, _goals: Tensor) -> nn.Module:
    vae = CalibratedVae(rows.shape[1], HIDDEN, WIDTH)

    def loss(epoch: int) -> Tensor:
        mean, log_variance = vae.encode(rows)
        rebuilt = vae.decoder(vae.sample(mean, log_variance))
        annealed = min(1.0, 2 * epoch / EPOCHS)
        return reconstruction_loss(rows, rebuilt) + annealed * divergence(mean, log_variance)

    _descend([vae], loss)
    return vae


def _descend(parts: list[nn.Module], loss: Callable[[int], Tensor]) -> None:
    parameters = [p for part in parts for p in part.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=LEARNING_RATE)
    for epoch in range(EPOCHS):
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss(epoch))
        optimiser.step()


_LEARN: dict[Embedding, Callable[[Tensor, Tensor], nn.Module]] = {
    Embedding.RAW: _raw,
    Embedding.NN: _nn,
    Embedding.AE: _ae,
    Embedding.VAE: _vae,
}
