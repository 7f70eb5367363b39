"""The ways through xAMM that are evaluated beside the other families; the rest: the ablations."""

from __future__ import annotations

from lab.published.xamm.choices import Choices, Embedding, Machines
from lab.published.xamm.family import XammFamily

FAMILIES = (
    XammFamily(),
    XammFamily(Choices(embedding=Embedding.RAW)),
    XammFamily(Choices(embedding=Embedding.RAW, machines=Machines.NAMES)),
)
"""As published; its AMMs without its attention; neither."""
