"""The one configuration file of xAMM (TOML): what to do, with which data.

The paper's listing 1 in our words: ``func`` is ``run``, ``src_model_path`` is ``model``; the
paths of saved AMMs are not needed, they are in the bundle.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import Field

from berth.pilot.documents import Document, read_toml
from berth.pilot.errors import DocumentError
from lab.published.xamm.choices import (
    Choices,
    Downstream,
    Embedding,
    Machines,
)
from lab.published.xamm.machine_model import Aggregation, Scale


class Step(StrEnum):
    """What can be run."""

    AMM = "amm"
    TRAIN = "train"
    TEST = "test"


class XammConfig(Document):
    """The file; paths are relative to it."""

    run: tuple[Step, ...] = Field(default=(Step.TRAIN, Step.TEST), min_length=1)
    out: str = "xamm"
    """Folder for what is made: ``model/``, ``amm.json``, ``predictions.csv``."""
    model: str | None = None
    """A bundle to use; absent: one is trained when a step needs it."""
    machine_data: str | None = None
    """CSV of benchmark runs, a platform file, or a folder of them; absent: without AMMs."""
    app_train_data: str | None = None
    app_test_data: str | None = None
    source_machine: str | None = None
    """Where the workloads of the test were profiled."""
    target_machines: tuple[str, ...] = ()
    embedding: Embedding = Embedding.ATTENTION
    downstream: Downstream = Downstream.XGBOOST
    aggregation: Aggregation = Aggregation.L2
    scale: Scale = Scale.SUBTRACT
    epochs: int = Field(default=100, ge=1)
    """Of attention; TabNet's default."""
    seed: int = 0

    @property
    def choices(self) -> Choices:
        """For training."""
        return Choices(self.embedding, Machines.AMM, self.aggregation, self.scale, self.downstream)


def read_config(path: Path) -> XammConfig:
    """Read and check; Raises DocumentError naming the key that a step lacks."""
    config = read_toml(path, XammConfig)
    needed: dict[str, Step] = {}
    if Step.AMM in config.run:
        needed["machine_data"] = Step.AMM
    if Step.TRAIN in config.run or config.model is None:
        needed["app_train_data"] = Step.TRAIN
    if Step.TEST in config.run:
        needed |= dict.fromkeys(("app_test_data", "source_machine", "target_machines"), Step.TEST)
    for key, step in needed.items():
        if not getattr(config, key):
            raise DocumentError(
                path, f"is needed to {step}", key=key, hint="name it, or leave that step out of run"
            )
    return config
