"""The bundle of training steps: cost rates and two ONNX regressors for each measured device."""

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
    LogWidth,
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
    """Return the file names of a device's tree ensemble and Gaussian process."""
    return f"trees-{platform}.onnx", f"process-{platform}.onnx"


class StepHead(Document):
    """The learnt model (head) of one measured device."""

    platform: str
    is_gpu: bool
    cores: int = Field(ge=1)
    """Number of CPU cores that were used."""
    precision: str
    rates: tuple[float, ...]
    """Seconds per unit of each of ``step_costs.TERMS``."""
    rows: int = Field(ge=1)
    models: int = Field(ge=1)
    here: LogWidth
    """Interval width on this device, for models that were not measured."""
    elsewhere: LogWidth
    """Interval width on other devices, with rates scaled by the ratio of peak rates."""


class StepManifest(BundleManifest):
    """The manifest of a bundle of training steps (``manifest.json``)."""

    schema_: str = Field(default=STEPS_SCHEMA, alias="schema")
    terms: tuple[str, ...]
    graph_features: tuple[str, ...]
    features: tuple[str, ...]
    heads: tuple[StepHead, ...] = Field(min_length=1)
    training: Training


@dataclass(frozen=True, slots=True)
class LoadedStepHead:
    """The loaded model of one measured device."""

    entry: StepHead
    rates: Floats
    """[terms] seconds per unit of each of ``step_costs.TERMS``."""
    learners: tuple[onnxruntime.InferenceSession, ...]

    def rest(self, rows: Floats) -> Floats:
        """Return [rows]: log of the predicted step time over the cost model's time, for rows of
        ``step_features``."""
        return np.asarray(np.mean([regressed(learner, rows) for learner in self.learners], axis=0))


@dataclass(frozen=True, slots=True)
class StepModel:
    """The loaded models of all measured devices of a bundle."""

    heads: tuple[LoadedStepHead, ...]
    id: str


def verify(folder: Path = DEFAULT_STEPS_BUNDLE) -> StepManifest:
    """Return the manifest of a bundle of training steps after verifying every checksum.

    Raises DocumentError.
    """
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
    """Return the verified bundle of training steps with its models opened.

    Raises DocumentError where a file is missing, damaged or of other features.
    """
    manifest = verify(folder)
    return StepModel(
        tuple(
            LoadedStepHead(
                entry, np.array(entry.rates),
                tuple(open_model(folder / name) for name in learner_files(entry.platform)),
            )
            for entry in manifest.heads
        ),
        manifest.id,
    )  # fmt: skip
