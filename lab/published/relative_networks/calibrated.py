"""A variational auto-encoder with a calibrated decoder.

Rybkin, Daniilidis and Levine, "Simple and effective VAE training with calibrated decoders"
(ICML 2021): the decoder is a normal distribution whose one variance is the analytic optimum,
the mean squared error of the reconstruction (their equation 9, "optimal sigma-VAE").
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from lab.published.relative_networks.layers import perceptron

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
        """Mean and log variance, rows x latent each."""
        mean, log_variance = self.encoder(rows).split(self.latent, dim=1)
        return mean, log_variance.clamp(-12.0, 12.0)

    def sample(self, mean: Tensor, log_variance: Tensor) -> Tensor:
        """A draw of the code, differentiable."""
        return mean + torch.randn_like(mean) * (0.5 * log_variance).exp()

    def forward(self, rows: Tensor) -> Tensor:
        """The code's mean: what is used once trained."""
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
