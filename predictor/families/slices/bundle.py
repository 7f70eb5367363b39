"""The slice predictor's bundle, loaded: latents (JSON) and the correction (ONNX)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from berth.pilot.documents import read_json
from berth.pilot.errors import DocumentError
from berth.predictor.core.bundle import open_model, regressed
from berth.predictor.families.slices.latent import Family, LatentFile
from berth.predictor.families.slices.manifest import (
    DEFAULT_SLICES_BUNDLE,
    LATENTS,
    NO_RESIDUAL,
    RESIDUAL,
    MethodEntry,
    verify,
)
from berth.predictor.families.slices.physics import ShareModel
from berth.predictor.families.slices.sweep_model import SweepModel

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
        _check(family, folder / LATENTS)
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


def _check(family: Family, path: Path) -> None:
    for m in family.members:
        width = len(m.features)
        sizes = {len(m.centre), len(m.scale), *(len(row) for row in m.rows)}
        if sizes != {width} or len(m.weights) != len(m.rows) or min(m.scale) <= 0:
            raise DocumentError(path, f"has a member of {family.name!r} that does not fit together")
