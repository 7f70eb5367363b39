"""The bundle of training steps: rates, trees and a process for each device measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.predictor.core.arrays import Floats
from berth.predictor.core.bundle import (
    SHIPPED_BUNDLES,
    BundleManifest,
    Training,
    check_complete,
    check_features,
    open_model,
    read_manifest,
    regressed,
)
from berth.predictor.families.graph.latency.features import GRAPH_FEATURES
from berth.predictor.families.training_step.step_costs import STEP_FEATURES, TERMS

if TYPE_CHECKING:
    import onnxruntime

STEPS_SCHEMA = "berth.dl-training-bundle/1"
DEFAULT_STEPS_BUNDLE = SHIPPED_BUNDLES / "dl-training"


def learner_files(platform: str) -> tuple[str, str]:
    """Return the names of a device's trees and process."""
    return f"trees-{platform}.onnx", f"process-{platform}.onnx"


class Width(Document):
    """Half width of the 90 % interval in log, from rows that nothing was fitted on."""

    log_width: float = Field(gt=0)
    rows: int = Field(ge=1)
    split: str


class StepHead(Document):
    """What was learnt on one device that was measured."""

    platform: str
    is_gpu: bool
    cores: int = Field(ge=1)
    """Cores that ran, of a CPU."""
    precision: str
    rates: tuple[float, ...]
    """Seconds a unit of each of ``step_costs.TERMS``."""
    rows: int = Field(ge=1)
    models: int = Field(ge=1)
    here: Width
    """Width on this device, for models never measured."""
    elsewhere: Width
    """Width on other devices, moved by the ratio of roofs."""


class StepManifest(BundleManifest):
    """``manifest.json``."""

    schema_: str = Field(default=STEPS_SCHEMA, alias="schema")
    terms: tuple[str, ...]
    graph_features: tuple[str, ...]
    features: tuple[str, ...]
    heads: tuple[StepHead, ...] = Field(min_length=1)
    training: Training


@dataclass(frozen=True, slots=True)
class Head:
    """A device that is ready to predict."""

    entry: StepHead
    rates: Floats
    learners: tuple[onnxruntime.InferenceSession, ...]

    def rest(self, rows: Floats) -> Floats:
        """Return [rows] log seconds beyond the cost model, of ``step_features``."""
        return np.asarray(np.mean([regressed(learner, rows) for learner in self.learners], axis=0))


@dataclass(frozen=True, slots=True)
class StepModel:
    """All heads of a bundle, ready to predict."""

    heads: tuple[Head, ...]
    id: str


def verify(folder: Path = DEFAULT_STEPS_BUNDLE) -> StepManifest:
    """Return the manifest, after every checksum has been compared. Raises DocumentError."""
    manifest = read_manifest(folder, StepManifest)
    needed = [name for head in manifest.heads for name in learner_files(head.platform)]
    check_complete(folder, manifest, needed)
    same = (
        manifest.terms == TERMS and manifest.features == STEP_FEATURES
        and manifest.graph_features == GRAPH_FEATURES
        and all(len(head.rates) == len(TERMS) for head in manifest.heads)
    )  # fmt: skip
    check_features(folder, same=same, key="features", retrain="python -m lab training-steps")
    return manifest


def load(folder: Path = DEFAULT_STEPS_BUNDLE) -> StepModel:
    """Verify and load. Raises DocumentError where anything about it is wrong."""
    manifest = verify(folder)
    return StepModel(
        tuple(
            Head(
                entry, np.array(entry.rates),
                tuple(open_model(folder / name) for name in learner_files(entry.platform)),
            )
            for entry in manifest.heads
        ),
        manifest.id,
    )  # fmt: skip
