"""Small parts that several networks share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from berth.predictor.core.arrays import Floats


class Standardise(nn.Module):
    """(x - mean) / deviation of the training rows, kept within the range that these had.

    A missing value becomes the mean. A network is a straight line outside the rows it has seen:
    without the range, a counter that training rows hardly vary sends an unseen application's
    prediction to infinity.
    """

    mean: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, rows: Floats) -> None:
        super().__init__()
        known = np.where(np.isfinite(rows), rows, np.nan)
        filled = np.where(np.isnan(known).all(axis=0), 0.0, known)
        mean, deviation = np.nanmean(filled, axis=0), np.nanstd(filled, axis=0)
        constant = deviation <= 1e-9 * (1 + np.abs(mean))
        self.register_buffer("mean", tensor(mean))
        self.register_buffer("scale", tensor(np.where(constant, 0.0, 1 / (deviation + constant))))
        self.register_buffer("low", tensor(np.nanmin(filled, axis=0)))
        self.register_buffer("high", tensor(np.nanmax(filled, axis=0)))

    def forward(self, rows: Tensor) -> Tensor:
        present = torch.where(torch.isnan(rows), self.mean.expand_as(rows), rows)
        within = torch.minimum(torch.maximum(present, self.low), self.high)
        return (within - self.mean) * self.scale

    def undo(self, scaled: Tensor) -> Tensor:
        """Back in the rows' own units; a constant column is its mean."""
        inverse = torch.where(self.scale > 0, 1 / self.scale, torch.zeros_like(self.scale))
        return scaled * inverse + self.mean


def tensor(rows: Floats) -> Tensor:
    """As float32."""
    return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32))


def perceptron(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers of these widths with a ReLU between each two."""
    layers: list[nn.Module] = []
    for wide, narrow in pairwise(widths):
        layers += [nn.Linear(wide, narrow), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def masked_error(guess: Tensor, labels: Tensor) -> Tensor:
    """Mean squared error over the labels that are known (not NaN); 0 where none is."""
    known = torch.isfinite(labels)
    apart = torch.where(known, guess - torch.nan_to_num(labels), torch.zeros_like(guess))
    return (apart**2).sum() / known.sum().clamp(min=1)
