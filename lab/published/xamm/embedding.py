"""Embeddings of xAMM: sequential attention over features (TabNet, own implementation), or none.

Arik and Pfister, "TabNet: Attentive interpretable tabular learning" (AAAI 2021); sparsemax:
Martins and Astudillo (ICML 2016), equation 2. Defaults are those of the library that the xAMM
paper used (pytorch-tabnet 4), which has had no release since 2023 and is therefore no dependency.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor, nn

from berth.predictor.core.arrays import Floats
from lab.published.networks import (
    Standardise,
    masked_error,
    seeded,
    tensor,
)

_HALF = 0.5**0.5
"""Residual sums are scaled so that their variance stays."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Hyper-parameters of the encoder and of its training, named as in the paper's library."""

    width: int = 8
    """``n_d`` = ``n_a``."""
    steps: int = 3
    relaxation: float = 1.3
    """``gamma``: 1 lets a feature be used in one step only."""
    shared: int = 2
    independent: int = 2
    momentum: float = 0.02
    virtual_batch: int = 128
    sparsity: float = 1e-3
    learning_rate: float = 0.02
    epochs: int = 100
    batch: int = 1024
    clip: float = 1.0


def sparsemax(scores: Tensor) -> Tensor:
    """Euclidean projection of each row onto the simplex: weights, many of them exactly 0."""
    ordered, _ = torch.sort(scores, dim=1, descending=True)
    rank = torch.cumsum(torch.ones_like(scores), dim=1)
    total = torch.cumsum(ordered, dim=1) - 1
    support = (rank * ordered > total).to(scores.dtype)
    count = support.sum(dim=1, keepdim=True)
    threshold = ((ordered * support).sum(dim=1, keepdim=True) - 1) / count
    return torch.clamp(scores - threshold, min=0)


class GhostNorm(nn.Module):
    """Batch normalisation over virtual batches of a batch."""

    def __init__(self, width: int, settings: Attention) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width, momentum=settings.momentum)
        self.virtual_batch = settings.virtual_batch

    def forward(self, rows: Tensor) -> Tensor:
        if not self.training:
            whole: Tensor = self.norm(rows)
            return whole
        parts = rows.chunk(-(-len(rows) // self.virtual_batch), dim=0)
        return torch.cat([self.norm(part) for part in parts])


class _Gated(nn.Module):
    """Linear, ghost norm, gated linear unit; the linear layer may be another step's."""

    def __init__(self, linear: nn.Linear, settings: Attention) -> None:
        super().__init__()
        self.linear = linear
        self.norm = GhostNorm(linear.out_features, settings)

    def forward(self, rows: Tensor) -> Tensor:
        return nn.functional.glu(self.norm(self.linear(rows)), dim=1)


class _FeatureTransformer(nn.Module):
    def __init__(self, inputs: int, shared: nn.ModuleList, settings: Attention) -> None:
        super().__init__()
        width = 2 * settings.width
        linears = [layer for layer in shared if isinstance(layer, nn.Linear)]
        for index in range(settings.independent):
            first = not linears and index == 0
            linears.append(_linear(inputs if first else width, 2 * width))
        self.blocks = nn.ModuleList(_Gated(linear, settings) for linear in linears)

    def forward(self, rows: Tensor) -> Tensor:
        made: Tensor = self.blocks[0](rows)
        for block in list(self.blocks)[1:]:
            made = (made + block(made)) * _HALF
        return made


class SequentialAttention(nn.Module):
    """Standardised rows -> an embedding: the decisions of all steps, rectified and summed."""

    def __init__(self, inputs: int, settings: Attention) -> None:
        super().__init__()
        self.settings = settings
        width = 2 * settings.width
        self.entry = nn.BatchNorm1d(inputs, momentum=0.01)
        shared = nn.ModuleList(
            _linear(inputs if index == 0 else width, 2 * width) for index in range(settings.shared)
        )
        count = settings.steps
        self.first = _FeatureTransformer(inputs, shared, settings)
        self.features = nn.ModuleList(
            _FeatureTransformer(inputs, shared, settings) for _ in range(count)
        )
        self.attend = nn.ModuleList(_linear(settings.width, inputs, 4) for _ in range(count))
        self.norms = nn.ModuleList(GhostNorm(inputs, settings) for _ in range(count))

    def forward(self, rows: Tensor) -> Tensor:
        return self.attended(rows)[0]

    def attended(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Embedding (rows x width), mean mask (rows x features), and the masks' entropy."""
        entered = self.entry(rows)
        prior = torch.ones_like(entered)
        width = self.settings.width
        state = self.first(entered)[:, width:]
        embedding = torch.zeros_like(state)
        total = torch.zeros_like(entered)
        entropy = torch.zeros((), dtype=rows.dtype)
        for transform, attend, norm in zip(self.features, self.attend, self.norms, strict=True):
            mask = sparsemax(norm(attend(state)) * prior)
            entropy = entropy - (mask * (mask + 1e-15).log()).sum(dim=1).mean()
            prior = prior * (self.settings.relaxation - mask)
            made = transform(mask * entered)
            embedding = embedding + torch.relu(made[:, :width])
            state = made[:, width:]
            total = total + mask
        return embedding, total / self.settings.steps, entropy / self.settings.steps


def _linear(inputs: int, outputs: int, spread: int = 1) -> nn.Linear:
    made = nn.Linear(inputs, outputs, bias=False)
    gain = ((inputs + outputs) / (spread * inputs) ** 0.5) ** 0.5
    nn.init.xavier_normal_(made.weight, gain=gain)
    return made


class Embedding(StrEnum):
    """What a profile becomes."""

    RAW = "raw"
    """Standardised log counters as they are."""
    ATTENTION = "attention"


PUBLISHED = Attention()


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
    """Learn an embedding of rows x features; attention learns it by predicting ``labels``.

    ``labels``: rows x targets, NaN where not known.
    """
    with seeded(seed):
        standardise = Standardise(features)
        rows = standardise(tensor(features))
        known = torch.isfinite(tensor(labels))
        goals = Standardise(labels)(tensor(labels)).masked_fill(~known, torch.nan)
        encoder = (
            _attention(rows, goals, attention) if kind is Embedding.ATTENTION else nn.Identity()
        )
        made = Embedder(standardise, encoder)
        made.eval()
    return made


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
