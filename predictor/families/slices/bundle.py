"""The bundle of the slice predictor: effective shares, methods with their widths, and models.

``verify`` reads the manifest and loads no model; ``load`` adds the latents (JSON) and the
correction of the load model (ONNX).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import Field

from berth.pilot.documents import Document, read_json
from berth.pilot.errors import DocumentError
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
from berth.predictor.families.slices.latent import Family, LatentFile
from berth.predictor.families.slices.physics import ShareModel
from berth.predictor.families.slices.sweep import SweepModel

SLICES_SCHEMA = "berth.slices-bundle/1"
LATENTS = "latents.json"
RESIDUAL = "sweep-residual.onnx"
NO_RESIDUAL = "none"
LARGE_BATCH = 64.0
"""Batch from which on a situation is of its own: it fills a GPU as few in training did."""
RESIDUAL_FEATURES: tuple[str, ...] = (
    "log_inverse_share", "log_load_model_slowdown", "log_work_over_host_slice",
    "log_work_over_host_whole", "log_processes", "log_batch",
)  # fmt: skip
"""Columns of the correction's input."""
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
    """Width with one measured slice beside; None: never tried."""
    large: Width | None = None
    """Width at batches of ``LARGE_BATCH`` and more; None: too few models had such."""
    sources: dict[str, Width] | None = None
    """Sources that the method combines, with the width that each would have alone; None: one
    source."""

    def width_at(self, batch: float) -> Width:
        """Return the width in the situation of this batch; large ones are never narrower."""
        if self.large is None or batch < LARGE_BATCH:
            return self.width
        return Width(
            q90=max(self.width.q90, self.large.q90), q95=max(self.width.q95, self.large.q95)
        )


class SliceTraining(Training):
    """What the bundle was made of."""

    residual: str
    """Name of the correction that the folds chose; ``none``: the load model alone."""


class SliceManifest(BundleManifest):
    """``manifest.json``."""

    schema_: str = Field(default=SLICES_SCHEMA, alias="schema")
    gpus: tuple[str, ...]
    """GPU models whose slices were measured; others are a guess by the same load model."""
    shares: ShareModel
    methods: tuple[MethodEntry, ...] = Field(min_length=1)
    residual_features: tuple[str, ...]
    training: SliceTraining


def verify(folder: Path = DEFAULT_SLICES_BUNDLE) -> SliceManifest:
    """Return the manifest, after every checksum has been compared. Raises DocumentError."""
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


__all__ = ["SliceModel", "load", "verify"]


@dataclass(frozen=True, slots=True)
class SliceModel:
    """What predicts: effective shares, families of latents, a correction; and its widths."""

    shares: ShareModel
    families: tuple[Family, ...]
    sweep: SweepModel
    methods: dict[str, MethodEntry]
    gpus: tuple[str, ...]
    id: str


def load(folder: Path = DEFAULT_SLICES_BUNDLE) -> SliceModel:
    """Verify and load. Raises DocumentError where anything about it is wrong."""
    manifest = verify(folder)
    families = read_json(folder / LATENTS, LatentFile).families
    named = {entry.name for entry in manifest.methods}
    for family in families:
        if family.name not in named:
            raise DocumentError(folder / LATENTS, f"holds {family.name!r}, unknown to the manifest")
        _check_family(family, folder / LATENTS)
    residual = None
    if manifest.training.residual != NO_RESIDUAL:
        residual = partial(regressed, open_model(folder / RESIDUAL))
    return SliceModel(
        shares=manifest.shares,
        families=families,
        sweep=SweepModel(residual),
        methods={entry.name: entry for entry in manifest.methods},
        gpus=manifest.gpus,
        id=manifest.id,
    )


def _check_family(family: Family, path: Path) -> None:
    for m in family.members:
        width = len(m.features)
        sizes = {len(m.centre), len(m.scale), *(len(row) for row in m.rows)}
        if sizes != {width} or len(m.weights) != len(m.rows) or min(m.scale) <= 0:
            raise DocumentError(path, f"has a member of {family.name!r} that does not fit together")
