"""The one configuration file of GNN + language model (TOML): every stage, its sizes and rates.

Defaults are the thesis's (sections 7.5.2 and 7.7.6) where it names them.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import Field, model_validator

from berth.pilot.documents import Document, read_toml
from lab.published.graph_language.checkpoints import RandomModel
from lab.published.graph_language.texts import Notation


class Precision(StrEnum):
    """Of the frozen weights."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class EncoderConfig(Document):
    """GIN."""

    layers: int = Field(default=5, ge=1, le=32)
    width: int = Field(default=1024, ge=4, le=8192)
    statics: bool = True
    """Totals of the graph beside the mean of its nodes, which forgets sizes; the thesis has none
    here (equation 7.5)."""


class PretrainConfig(Document):
    """Stage 1; no epochs: the encoder begins at random."""

    epochs: int = Field(default=500, ge=0)
    batch: int = Field(default=128, ge=1)
    rate: float = Field(default=5e-4, gt=0)
    mask: float = Field(default=0.5, gt=0, lt=1)
    replaced: float = Field(default=0.1, ge=0, lt=1)
    power: float = Field(default=2.0, ge=1)


class LanguageModelConfig(Document):
    """A checkpoint by its folder, or one made at random."""

    path: str | None = None
    random: RandomModel | None = None
    rank: int = Field(default=8, ge=0, le=512)
    """LoRA's; 0: every weight is trained (a random model needs it)."""
    alpha: int = Field(default=16, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    precision: Precision = Precision.FLOAT32

    @model_validator(mode="after")
    def _one(self) -> LanguageModelConfig:
        if (self.path is None) == (self.random is None):
            raise ValueError("name either path or random")
        if self.rank == 0 and self.precision is not Precision.FLOAT32:
            raise ValueError("rank 0 trains every weight, which needs float32")
        return self


class StageConfig(Document):
    """Stages 2 and 3 and each adaptation; no epochs: the stage is left out."""

    epochs: int = Field(default=10, ge=0)
    batch: int = Field(default=16, ge=1)
    encoder_rate: float = Field(default=1e-3, ge=0)
    """Of the GNN and the projection."""
    language_rate: float = Field(default=1e-4, ge=0)


class AdaptConfig(StageConfig):
    """What is new, and how it is learnt."""

    epochs: int = Field(default=3, ge=0)
    device: str | None = None
    family: str | None = None

    @model_validator(mode="after")
    def _one(self) -> AdaptConfig:
        if (self.device is None) == (self.family is None):
            raise ValueError("name either device or family")
        return self

    @property
    def group(self) -> tuple[str, str]:
        """Column and value of its rows."""
        return ("family", str(self.family)) if self.device is None else ("device", self.device)

    @property
    def stage(self) -> str:
        """Return the name of its stage."""
        column, value = self.group
        return f"adapt-{column}-{''.join(c if c.isalnum() else '-' for c in value)}"


class RegressorConfig(Document):
    """The GNN without a language model: head and training."""

    epochs: int = Field(default=10, ge=1)
    batch: int = Field(default=16, ge=1)
    rate: float = Field(default=1e-3, gt=0)
    adapt_epochs: int = Field(default=30, ge=0)
    width: int = Field(default=128, ge=4)


class LanguageConfig(Document):
    """The file; paths are relative to it."""

    out: str = "graph-language"
    """Folder for what is made."""
    seed: int = 0
    device: str = Field(default="cpu", pattern=r"cpu|cuda(:\d+)?")
    rows: int = Field(default=5000, ge=2)
    """Measured rows that the base learns from, at most."""
    samples: int = Field(default=32, ge=1)
    """Rows of an adaptation."""
    test_rows: int = Field(default=500, ge=1)
    """Tested of each adaptation, at most."""
    notation: Notation = Notation.SCIENTIFIC
    keep_every: int = Field(default=50, ge=1)
    """Steps between two states to resume from."""
    encoder: EncoderConfig = EncoderConfig()
    pretrain: PretrainConfig = PretrainConfig()
    language_model: LanguageModelConfig
    align: StageConfig = StageConfig()
    regress: StageConfig = StageConfig()
    adapt: tuple[AdaptConfig, ...] = Field(min_length=1)
    regressor: RegressorConfig = RegressorConfig()
    sentences: str | None = None
    """A sentence encoder's folder, for the variant GNN + sentence embedding."""

    @model_validator(mode="after")
    def _different(self) -> LanguageConfig:
        groups = [one.group for one in self.adapt]
        if len(set(groups)) < len(groups):
            raise ValueError("adapt names the same group twice")
        return self


def read_config(path: Path) -> LanguageConfig:
    """Read and check. Raises DocumentError naming the key at fault."""
    return read_toml(path, LanguageConfig)
