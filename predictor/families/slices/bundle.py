"""The bundle of the slice predictor: effective shares, Gaussian processes, methods with interval
widths.

All of it is in the manifest.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import DocumentError
from berth.predictor.core.bundle import (
    MANIFEST,
    SHIPPED_BUNDLES,
    BundleManifest,
    Training,
    check_complete,
    read_manifest,
)
from berth.predictor.families.slices.latent import LatentProcess
from berth.predictor.families.slices.physics import ShareModel

SLICES_SCHEMA = "berth.slices-bundle/3"
LARGE_BATCH = 64.0
"""Least batch size with interval widths of its own: few training runs used a GPU that fully."""
DEFAULT_SLICES_BUNDLE = SHIPPED_BUNDLES / "mig-slices"
"""Folder of the shipped bundle."""


class MethodEntry(Document):
    """A method to predict slow-downs on MIG slices, with interval widths from models left out of
    training.

    A width is the half width of the 90 % interval of the log slow-down for a difficulty of 1
    (``predictor`` has its formula).
    """

    name: str
    rows: int = Field(ge=1)
    """Number of measured slow-downs that the widths come from."""
    models: int = Field(ge=1)
    """Number of deep-learning models that the widths come from."""
    data: str
    """Name of the data set that the widths come from."""
    width: float = Field(gt=0)
    probed: float | None = Field(gt=0)
    """Interval width for workloads that were also measured on one slice; None: such a run did not
    help on models left out, and moves no other slice but by bounding it."""
    large: float | None = Field(default=None, gt=0)
    """Interval width for batches of at least ``LARGE_BATCH``; None: too few models had such
    batches."""

    def width_at(self, batch: float) -> float:
        """Return the width for a batch size; large batches have at least that of all."""
        return max(self.width, (batch >= LARGE_BATCH and self.large) or 0.0)


class SliceManifest(BundleManifest):
    """The content of a slices bundle's ``manifest.json``."""

    schema_: str = Field(default=SLICES_SCHEMA, alias="schema")
    gpus: tuple[str, ...]
    """GPU models whose slices were measured; predictions for other GPU models are rough
    estimates."""
    shares: ShareModel
    methods: tuple[MethodEntry, ...] = Field(min_length=1)
    latents: tuple[LatentProcess, ...] = Field(min_length=1)
    training: Training

    def method(self, name: str) -> MethodEntry | None:
        """Return the method of this name; None: the bundle has none."""
        return next((entry for entry in self.methods if entry.name == name), None)

    def latent(self, name: str) -> LatentProcess | None:
        """Return the Gaussian process of this method; None: the bundle has none."""
        return next((process for process in self.latents if process.name == name), None)


def verify(folder: Path = DEFAULT_SLICES_BUNDLE) -> SliceManifest:
    """Return the manifest of the slices bundle after verifying the checksum of every file.

    Raises DocumentError.
    """
    manifest = read_manifest(folder, SliceManifest)
    check_complete(folder, manifest, ())
    return manifest


def load(folder: Path = DEFAULT_SLICES_BUNDLE) -> SliceManifest:
    """Return the verified manifest, of which every Gaussian process can answer.

    Raises DocumentError.
    """
    manifest = verify(folder)
    for process in manifest.latents:
        if manifest.method(process.name) is None:
            raise DocumentError(folder / MANIFEST, f"has no method {process.name!r}")
        if not process.is_consistent:
            raise DocumentError(folder / MANIFEST, f"has a {process.name!r} of unequal sizes")
    return manifest
