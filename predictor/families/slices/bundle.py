"""The bundle of the slice predictor: manifest, latents (JSON), the correction (ONNX)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from pydantic import Field

from berth.pilot.documents import Document, read_json
from berth.pilot.errors import DocumentError
from berth.predictor.core.bundle import (
    SHIPPED_BUNDLES,
    BundleManifest,
    check_complete,
    check_features,
    open_model,
    read_manifest,
)
from berth.predictor.families.slices.latent import Family, LatentFile
from berth.predictor.families.slices.physics import Floats, ShareLaw
from berth.predictor.families.slices.sweep_model import RESIDUAL_FEATURES, SweepModel

SLICES_SCHEMA = "berth.slices-bundle/1"
LATENTS = "latents.json"
RESIDUAL = "sweep-residual.onnx"
NO_RESIDUAL = "none"
LARGE_BATCH = 64.0
"""From here on a batch is a situation of its own: it fills a GPU as few in training did."""
DEFAULT_SLICES_BUNDLE = SHIPPED_BUNDLES / "mig-slices"


class Width(Document):
    """Interval half widths in log slow-down, for a difficulty of 1 (see ``predictor``)."""

    q90: float = Field(gt=0)
    q95: float = Field(gt=0)


class MethodEntry(Document):
    """One way to predict and how far off it was on models that it had not seen."""

    name: str
    rows: int = Field(ge=1)
    models: int = Field(ge=1)
    data: str
    width: Width
    probed: Width | None
    """With one measured slice beside; None: never tried."""
    large: Width | None = None
    """At batches of ``LARGE_BATCH`` and more; None: too few models had such."""
    sources: dict[str, Width] | None = None
    """What the method combines, with the width that each would have alone; None: one source."""

    def width_at(self, batch: float) -> Width:
        """The width in the situation of this batch; of large ones never narrower."""
        if self.large is None or batch < LARGE_BATCH:
            return self.width
        return Width(
            q90=max(self.width.q90, self.large.q90), q95=max(self.width.q95, self.large.q95)
        )


class SliceTraining(Document):
    """What the bundle was made of."""

    sources: dict[str, str]
    """Data set -> SHA-256."""
    seed: int
    residual: str
    """Name of the correction that the folds chose; ``none``: the law alone."""
    libraries: dict[str, str]


class SliceManifest(BundleManifest):
    """``manifest.json``."""

    schema_: str = Field(default=SLICES_SCHEMA, alias="schema")
    gpus: tuple[str, ...]
    """GPU models whose slices were measured; others are a guess by the same law."""
    shares: ShareLaw
    methods: tuple[MethodEntry, ...] = Field(min_length=1)
    residual_features: tuple[str, ...]
    training: SliceTraining


@dataclass(frozen=True, slots=True)
class SliceModel:
    """What predicts: a law of shares, families of latents, a correction; and its widths."""

    shares: ShareLaw
    families: tuple[Family, ...]
    sweep: SweepModel
    methods: dict[str, MethodEntry]
    gpus: tuple[str, ...]
    id: str


def verify(folder: Path = DEFAULT_SLICES_BUNDLE) -> SliceManifest:
    """The manifest, after every checksum has been compared. Raises DocumentError."""
    manifest = read_manifest(folder, SliceManifest)
    corrected = manifest.training.residual != NO_RESIDUAL
    check_complete(folder, manifest, (LATENTS, RESIDUAL) if corrected else (LATENTS,))
    check_features(
        folder,
        same=manifest.residual_features == RESIDUAL_FEATURES,
        key="residual_features",
        retrain="python -m lab mig-slices --train",
    )
    return manifest


def load(folder: Path = DEFAULT_SLICES_BUNDLE) -> SliceModel:
    """Verify and load. Raises DocumentError where anything about it is wrong."""
    manifest = verify(folder)
    families = read_json(folder / LATENTS, LatentFile).families
    named = {entry.name for entry in manifest.methods}
    for family in families:
        if family.name not in named:
            raise DocumentError(folder / LATENTS, f"holds {family.name!r}, unknown to the manifest")
        _check(family, folder / LATENTS)
    residual = None
    if manifest.training.residual != NO_RESIDUAL:
        residual = _Correction(open_model(folder / RESIDUAL))
    return SliceModel(
        shares=manifest.shares,
        families=families,
        sweep=SweepModel(residual),
        methods={entry.name: entry for entry in manifest.methods},
        gpus=manifest.gpus,
        id=manifest.id,
    )


def _check(family: Family, path: Path) -> None:
    for m in family.members:
        width = len(m.features)
        sizes = {len(m.centre), len(m.scale), *(len(row) for row in m.rows)}
        if sizes != {width} or len(m.weights) != len(m.rows) or min(m.scale) <= 0:
            raise DocumentError(path, f"has a member of {family.name!r} that does not fit together")


@dataclass(frozen=True, slots=True)
class _Correction:
    """The ONNX ensemble as a function."""

    session: onnxruntime.InferenceSession

    def __call__(self, rows: Floats) -> Floats:
        (output,) = self.session.run(None, {"features": rows.astype(np.float32)})
        return np.asarray(output, dtype=np.float64).reshape(-1)
