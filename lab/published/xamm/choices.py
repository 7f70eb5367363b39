"""What can be chosen in xAMM; each choice is one axis of the paper's ablations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lab.published.xamm.machine_model import Aggregation, Scale

WIDTH = 8
"""Of every embedding: that of TabNet's default, so that all kinds carry as much."""


class Embedding(StrEnum):
    """What a profile becomes."""

    RAW = "raw"
    """Standardised log counters as they are."""
    NN = "nn"
    AE = "ae"
    VAE = "vae"
    ATTENTION = "attention"


class Machines(StrEnum):
    """What the downstream model knows of source and target."""

    NONE = "none"
    """Nothing, as in the paper's runs without AMMs: it cannot tell targets apart."""
    NAMES = "names"
    """Which of the trained machines each is (one-hot): not in the paper; what any method knows."""
    AMM = "amm"


class Downstream(StrEnum):
    """The ensemble of trees, its library's defaults."""

    ADABOOST = "adaboost"
    BAGGING = "bagging"
    FOREST = "random-forest"
    XGBOOST = "xgboost"


@dataclass(frozen=True, slots=True)
class Choices:
    """One way through xAMM."""

    embedding: Embedding = Embedding.ATTENTION
    machines: Machines = Machines.AMM
    aggregation: Aggregation = Aggregation.L2
    scale: Scale = Scale.SUBTRACT
    downstream: Downstream = Downstream.XGBOOST
