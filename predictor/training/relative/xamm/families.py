"""The ways through xAMM that are evaluated beside the other families; the rest: the ablations."""

from __future__ import annotations

from berth.predictor.training.relative.xamm.choices import Choices, Embedding, Machines
from berth.predictor.training.relative.xamm.family import XammFamily

FAMILIES = (
    XammFamily(),
    XammFamily(Choices(embedding=Embedding.RAW)),
    XammFamily(Choices(embedding=Embedding.RAW, machines=Machines.NAMES)),
)
"""As published; its AMMs without its attention; neither."""
