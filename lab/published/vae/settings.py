"""What the abstract of VAE + DNN fixes, and what it leaves open and is settled here."""

from __future__ import annotations

from dataclasses import dataclass


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
