"""Serving xAMM: both models of a bundle, with abstract machine models and without.

Dhakal et al., equation 3: embedding of the profile, AMM of source and AMM of target into an
ensemble of trees. A machine that was never trained on needs only its benchmark data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import DocumentError
from berth.predictor.core.arrays import Floats
from berth.predictor.core.bundle import (
    MANIFEST,
    BundleManifest,
    check_complete,
    open_model,
    read_manifest,
)
from lab.published.xamm.machine_model import Aggregation, Scale, machine_model

XAMM_SCHEMA = "berth.xamm-bundle/1"
EMBEDDING = "embedding.onnx"
MACHINE_EMBEDDING = "machine-embedding.onnx"
WITH_MACHINES = "with-machines.onnx"
WITHOUT_MACHINES = "without-machines.onnx"


class XammTraining(Document):
    """What the bundle was made of."""

    rows: int = Field(ge=1)
    applications: int = Field(ge=1)
    seed: int
    embedding: str
    downstream: str
    libraries: dict[str, str]


class XammManifest(BundleManifest):
    """``manifest.json``."""

    schema_: str = Field(default=XAMM_SCHEMA, alias="schema")
    counters: tuple[str, ...] = Field(min_length=1)
    benchmarks: tuple[str, ...]
    """Features of a machine's benchmark data; none: no AMMs were learnt."""
    machines: dict[str, tuple[float, ...]]
    """Saved AMMs."""
    trained_machines: tuple[str, ...]
    """Machines with times in training, as source or target."""
    aggregation: Aggregation
    scale: Scale
    training: XammTraining


@dataclass(frozen=True, slots=True)
class Answer:
    """Predicted for one profile on one target."""

    speedup: float
    with_machines: bool
    """False: by the model without AMMs, which cannot tell targets apart."""


@dataclass(frozen=True, slots=True)
class XammModel:
    """A loaded bundle."""

    manifest: XammManifest
    embedding: onnxruntime.InferenceSession
    machine_embedding: onnxruntime.InferenceSession | None
    with_machines: onnxruntime.InferenceSession | None
    without_machines: onnxruntime.InferenceSession

    def machine(self, samples: Floats) -> Floats:
        """The AMM of a machine from its benchmark runs (samples x ``manifest.benchmarks``).

        Raises ValueError where the bundle was trained without benchmark data.
        """
        if self.machine_embedding is None:
            raise ValueError("this bundle was trained without benchmark data")
        embedded = _run(self.machine_embedding, samples)
        return machine_model(embedded, self.manifest.aggregation, self.manifest.scale)

    def answers(
        self,
        counters: Floats,
        source_seconds: Floats,
        source: str,
        target: str,
        machines: Mapping[str, Floats] | None = None,
    ) -> list[Answer]:
        """One answer a profile (profiles x counters, raw) that was measured on ``source``.

        ``machines``: AMMs of machines beyond those of the bundle; they come first.
        """
        known = {name: np.array(v) for name, v in self.manifest.machines.items()}
        known |= dict(machines or {})
        features = np.column_stack([np.log1p(counters), np.log(source_seconds)])
        embedded = _run(self.embedding, features)
        named = source in self.manifest.trained_machines and source in known and target in known
        if self.with_machines is not None and named:
            beside = np.tile(np.concatenate([known[source], known[target]]), (len(embedded), 1))
            guess = _run(self.with_machines, np.hstack([embedded, beside]))
            return [Answer(float(np.exp(v)), with_machines=True) for v in guess.reshape(-1)]
        guess = _run(self.without_machines, embedded)
        return [Answer(float(np.exp(v)), with_machines=False) for v in guess.reshape(-1)]


def verify(folder: Path) -> XammManifest:
    """The manifest, after every checksum has been compared. Raises DocumentError."""
    manifest = read_manifest(folder, XammManifest)
    if manifest.schema_ != XAMM_SCHEMA:
        raise DocumentError(folder / MANIFEST, f"is {manifest.schema_}, not {XAMM_SCHEMA}")
    needed: Sequence[str] = (EMBEDDING, WITHOUT_MACHINES)
    if manifest.benchmarks:
        needed = (*needed, MACHINE_EMBEDDING, WITH_MACHINES)
    check_complete(folder, manifest, needed)
    return manifest


def load(folder: Path) -> XammModel:
    """Verify and load. Raises DocumentError where anything about it is wrong."""
    manifest = verify(folder)
    named = bool(manifest.benchmarks)
    return XammModel(
        manifest=manifest,
        embedding=open_model(folder / EMBEDDING),
        machine_embedding=open_model(folder / MACHINE_EMBEDDING) if named else None,
        with_machines=open_model(folder / WITH_MACHINES) if named else None,
        without_machines=open_model(folder / WITHOUT_MACHINES),
    )


def _run(session: onnxruntime.InferenceSession, rows: Floats) -> Floats:
    name = session.get_inputs()[0].name
    (out,) = session.run(None, {name: np.asarray(rows, dtype=np.float32)})
    return np.asarray(out, dtype=np.float64)
