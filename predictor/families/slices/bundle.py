"""The bundle of the slice predictor: effective shares, prediction methods with interval widths,
models.

``verify`` reads the manifest without loading a model. ``load`` also loads the Gaussian processes
(``latents.json``) and the learnt correction of the load model (ONNX).
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
from berth.predictor.families.slices.latent import LatentFile, LatentGroup
from berth.predictor.families.slices.physics import ShareModel
from berth.predictor.families.slices.sweep import SweepModel

SLICES_SCHEMA = "berth.slices-bundle/1"
LATENTS = "latents.json"
"""File name of the Gaussian processes (``latent``)."""
RESIDUAL = "sweep-residual.onnx"
"""File name of the learnt correction of the load model (``sweep``)."""
LARGE_BATCH = 64.0
"""Least batch size with interval widths of its own: few training runs used a GPU that fully."""
RESIDUAL_FEATURES: tuple[str, ...] = (
    "log_inverse_share", "log_load_model_slowdown", "log_work_over_host_slice",
    "log_work_over_host_whole", "log_processes", "log_batch",
)  # fmt: skip
"""Input columns of the learnt correction, in order."""
DEFAULT_SLICES_BUNDLE = SHIPPED_BUNDLES / "mig-slices"
"""Folder of the shipped bundle."""


class SlowdownWidth(Document):
    """Half widths of the 90 % and 95 % intervals of the log slow-down, for a difficulty of 1.

    ``predictor`` gives the formula of the difficulty.
    """

    q90: float = Field(gt=0)
    q95: float = Field(gt=0)


class MethodEntry(Document):
    """A method to predict slow-downs on MIG slices, with interval widths from models left out of
    training."""

    name: str
    rows: int = Field(ge=1)
    """Number of measured slow-downs that the widths come from."""
    models: int = Field(ge=1)
    """Number of deep-learning models that the widths come from."""
    data: str
    """Name of the data set that the widths come from."""
    width: SlowdownWidth
    probed: SlowdownWidth | None
    """Interval width for workloads that were also measured on one slice; None: such a run did not
    help on models left out, and moves no other slice but by bounding it."""
    large: SlowdownWidth | None = None
    """Interval width for batches of at least ``LARGE_BATCH``; None: too few models had such
    batches."""

    def width_at(self, batch: float) -> SlowdownWidth:
        if self.large is None or batch < LARGE_BATCH:
            return self.width
        return SlowdownWidth(
            q90=max(self.width.q90, self.large.q90), q95=max(self.width.q95, self.large.q95)
        )


class SliceManifest(BundleManifest):
    """The content of a slices bundle's ``manifest.json``."""

    schema_: str = Field(default=SLICES_SCHEMA, alias="schema")
    gpus: tuple[str, ...]
    """GPU models whose slices were measured; predictions for other GPU models are rough
    estimates."""
    shares: ShareModel
    methods: tuple[MethodEntry, ...] = Field(min_length=1)
    residual_features: tuple[str, ...]
    training: Training


def verify(folder: Path = DEFAULT_SLICES_BUNDLE) -> SliceManifest:
    """Return the manifest of the slices bundle after verifying the checksum of every file.

    Raises DocumentError.
    """
    manifest = read_manifest(folder, SliceManifest)
    check_complete(folder, manifest, (LATENTS, RESIDUAL))
    check_features(
        folder,
        same=manifest.residual_features == RESIDUAL_FEATURES,
        key="residual_features",
        retrain="python -m lab mig-slices --train",
    )
    return manifest


@dataclass(frozen=True, slots=True)
class SliceModel:
    """A loaded slices bundle: effective shares, Gaussian processes, load model and interval
    widths."""

    shares: ShareModel
    families: tuple[LatentGroup, ...]
    sweep: SweepModel
    methods: dict[str, MethodEntry]
    gpus: tuple[str, ...]
    """GPU models whose slices were measured."""
    id: str
    """The bundle's id, a digest of its data."""


def load(folder: Path = DEFAULT_SLICES_BUNDLE) -> SliceModel:
    """Return the slices bundle in ``folder`` with its models, after verifying every file.

    Raises DocumentError for a missing or invalid file.
    """
    manifest = verify(folder)
    families = read_json(folder / LATENTS, LatentFile).families
    named = {entry.name for entry in manifest.methods}
    for family in families:
        if family.name not in named:
            raise DocumentError(folder / LATENTS, f"holds {family.name!r}, unknown to the manifest")
        _check_family(family, folder / LATENTS)
    return SliceModel(
        shares=manifest.shares,
        families=families,
        sweep=SweepModel(partial(regressed, open_model(folder / RESIDUAL))),
        methods={entry.name: entry for entry in manifest.methods},
        gpus=manifest.gpus,
        id=manifest.id,
    )


def _check_family(family: LatentGroup, path: Path) -> None:
    for m in family.members:
        width = len(m.features)
        sizes = {len(m.centre), len(m.scale), *(len(row) for row in m.rows)}
        if sizes != {width} or len(m.weights) != len(m.rows) or min(m.scale, default=1.0) <= 0:
            raise DocumentError(path, f"has a member of {family.name!r} that does not fit together")
