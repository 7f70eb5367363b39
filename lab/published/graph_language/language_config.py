"""The configuration file of GNN + language model (TOML): every stage, its sizes and rates.

Defaults are the thesis's (sections 7.5.2 and 7.7.6) where it names them.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from berth.pilot.documents import Document
from lab.published.graph_language.checkpoints import RandomModel


class EncoderConfig(Document):
    """The GIN encoder."""

    layers: int = Field(default=5, ge=1, le=32)
    width: int = Field(default=1024, ge=4, le=8192)


class PretrainConfig(Document):
    """Stage 1. Without epochs the encoder stays as it was drawn."""

    epochs: int = Field(default=500, ge=0)
    batch: int = Field(default=128, ge=1)
    rate: float = Field(default=5e-4, gt=0)
    mask: float = Field(default=0.5, gt=0, lt=1)
    replaced: float = Field(default=0.1, ge=0, lt=1)
    power: float = Field(default=2.0, ge=1)


class LanguageModelConfig(Document):
    """A checkpoint by its folder, or a random model."""

    path: str | None = None
    random: RandomModel | None = None
    rank: int = Field(default=8, ge=0, le=512)
    """Of LoRA. With 0 every weight is trained, which a random model needs."""
    alpha: int = Field(default=16, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the frozen weights."""

    @model_validator(mode="after")
    def _one_source(self) -> LanguageModelConfig:
        if (self.path is None) == (self.random is None):
            raise ValueError("name either path or random")
        if self.rank == 0 and self.precision != "float32":
            raise ValueError("rank 0 trains every weight, which needs float32")
        return self


class StageConfig(Document):
    """Stages 2 and 3 and each adaptation. Without epochs the stage is left out."""

    epochs: int = Field(default=10, ge=0)
    batch: int = Field(default=16, ge=1)
    encoder_rate: float = Field(default=1e-3, ge=0)
    """Learning rate of the encoder and the projection."""
    language_rate: float = Field(default=1e-4, ge=0)


class AdaptConfig(StageConfig):
    """A new device, or a new family of models."""

    epochs: int = Field(default=3, ge=0)
    device: str | None = None
    family: str | None = None

    @model_validator(mode="after")
    def _one_group(self) -> AdaptConfig:
        if (self.device is None) == (self.family is None):
            raise ValueError("name either device or family")
        return self

    @property
    def group(self) -> tuple[str, str]:
        """Return the column and the value that its rows have."""
        return ("family", str(self.family)) if self.device is None else ("device", self.device)

    @property
    def stage(self) -> str:
        """Return the name of its stage."""
        column, value = self.group
        return f"adapt-{column}-{''.join(c if c.isalnum() else '-' for c in value)}"


class LanguageConfig(Document):
    """The whole file; paths are relative to its folder."""

    out: str = "graph-language"
    """Folder of weights and answers."""
    seed: int = 0
    device: str = Field(default="cpu", pattern=r"cpu|cuda(:\d+)?")
    rows: int = Field(default=5000, ge=2)
    """Most rows that the base learns from."""
    samples: int = Field(default=32, ge=1)
    """Rows that an adaptation learns from."""
    test_rows: int = Field(default=500, ge=1)
    """Most rows that an adaptation is tested on."""
    encoder: EncoderConfig = EncoderConfig()
    pretrain: PretrainConfig = PretrainConfig()
    language_model: LanguageModelConfig
    align: StageConfig = StageConfig()
    regress: StageConfig = StageConfig()
    adapt: tuple[AdaptConfig, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _different_groups(self) -> LanguageConfig:
        groups = [adaptation.group for adaptation in self.adapt]
        if len(set(groups)) < len(groups):
            raise ValueError("adapt names the same group twice")
        return self
