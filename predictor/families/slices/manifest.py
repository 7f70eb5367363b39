"""What the manifest of a slice bundle says: shares, methods and their widths. Loads no model."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from berth.pilot.documents import Document
from berth.predictor.core.bundle import (
    SHIPPED_BUNDLES,
    BundleManifest,
    Training,
    check_complete,
    check_features,
    read_manifest,
)
from berth.predictor.families.slices.physics import ShareModel

SLICES_SCHEMA = "berth.slices-bundle/1"
LATENTS = "latents.json"
RESIDUAL = "sweep-residual.onnx"
NO_RESIDUAL = "none"
LARGE_BATCH = 64.0
"""From here on a batch is a situation of its own: it fills a GPU as few in training did."""
RESIDUAL_FEATURES: tuple[str, ...] = (
    "log_inverse_share", "log_law_slowdown", "log_work_over_host_slice",
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
