"""Read and write the bundle of transfer between platforms: a manifest, and training cases as
arrays.

A case is one measured model on one platform. The arrays hold each case's features (no names, no
graphs), its ratio of measured to roofline time, and its weight in the Gaussian process. A platform
that a site adds appends a few cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import DocumentError
from berth.predictor.core.arrays import Floats, array_file, read_arrays
from berth.predictor.core.bundle import (
    SHIPPED_BUNDLES,
    BundleManifest,
    Training,
    check_complete,
    read_manifest,
)
from berth.predictor.families.graph.transfer.cases import GRAPH, PLACE, SPEC, Cases
from berth.predictor.families.graph.transfer.kernel import (
    LEVELS,
    TERMS,
    FeatureScale,
    Own,
    TransferKernel,
)
from berth.predictor.families.graph.transfer.posterior import TransferPosterior, TransferWidth

TRANSFER_SCHEMA = "berth.model-transfer/1"
CASES = "cases.npz"
DEFAULT_TRANSFER = SHIPPED_BUNDLES / "model-transfer"
_WIDE = ("spec", "log_roof")
_CODES = ("gpu", "fused", "device", "stack", "model")
_SCALES = tuple(column.name for column in fields(FeatureScale))
_MOST_BYTES = 256 * 2**20


class PlatformEntry(Document):
    """Manifest entry of a platform whose cases are in the bundle."""

    platform: str
    novelty_scale: float = Field(gt=0)
    """Factor on the platform's own terms of the covariance: above 1, the platform is less similar
    to others."""
    shift: float = Field(default=0.0, ge=0)
    """Standard deviation, in log time, of an additional constant of the platform."""
    samples: int | None = None
    """Number of runs if a site added the platform; None: the platform is from the training data."""
    threads: int | None = None
    """Number of threads of the site's runs on a CPU; None: not a site's CPU."""
    log_width: float | None = Field(default=None, gt=0)
    """Half width of the 90 % interval in log time if a site added the platform, else None."""


class TransferTraining(Training):
    """Number of measurements that the bundle was trained on."""

    rows: int = Field(ge=1)


class TransferManifest(BundleManifest):
    """Contents of ``manifest.json`` of a transfer bundle."""

    schema_: str = Field(default=TRANSFER_SCHEMA, alias="schema")
    amplitudes: dict[str, tuple[float, ...]]
    """Standard deviations in log time by level of similarity, one for each of ``TERMS``."""
    graph_length: float = Field(gt=0)
    place_length: float = Field(gt=0)
    noise: float = Field(gt=0)
    offset: float
    platforms: tuple[PlatformEntry, ...]
    stacks: tuple[str, ...]
    columns: tuple[str, ...]
    """Names of the feature columns of a case."""
    widths: tuple[TransferWidth, ...] = Field(min_length=2)
    split: str
    """Held-out split on which the interval widths were calibrated."""
    training: TransferTraining


COLUMNS = (*GRAPH, *PLACE, *SPEC)


def arrays_of(posterior: TransferPosterior, residual: Floats, noise: Floats) -> bytes:
    """Return the bytes of the array file (``.npz``) that ``read_arrays`` reads, from a posterior
    and its training residuals and noise."""
    cases, scale = posterior.cases, posterior.kernel.scale
    held = {
        "graph": cases.graph.astype(np.float32), "place": cases.place.astype(np.float32),
        **{name: getattr(cases, name) for name in _WIDE},
        **{name: getattr(cases, name).astype(np.int32) for name in _CODES},
        **{name: getattr(scale, name) for name in _SCALES},
        "weights": posterior.weights, "residual": residual, "noise": noise,
    }  # fmt: skip
    return array_file(held)


def load(folder: Path = DEFAULT_TRANSFER) -> TransferPosterior:
    """Return the posterior stored in a transfer bundle. Raises DocumentError for a broken
    bundle."""
    return read(folder)[0]


def verify(folder: Path = DEFAULT_TRANSFER) -> TransferManifest:
    """Return the manifest of a transfer bundle after reading and checking all its files. Raises
    DocumentError."""
    return read(folder)[3]


def read(folder: Path) -> tuple[TransferPosterior, Floats, Floats, TransferManifest]:
    """Return the contents of a transfer bundle: (posterior, [cases] residual, [cases] noise,
    manifest). Raises DocumentError."""
    manifest = read_manifest(folder, TransferManifest)
    check_complete(folder, manifest, [CASES])
    path = folder / CASES
    if manifest.columns != COLUMNS or set(manifest.amplitudes) != set(LEVELS):
        raise DocumentError(
            path, "was made by another version of Berth", hint="make it again by `berth train`"
        )
    held = read_arrays(path, _MOST_BYTES)
    try:
        scale = FeatureScale(*(held[name] for name in _SCALES))
        columns: dict[str, Any] = {
            column.name: held[column.name].astype(np.int64 if column.name in _CODES else np.float64)
            for column in fields(Cases)
        }
        cases = Cases(**columns)
        many = len(held["weights"])
        shapes = {
            "graph": (many, len(GRAPH)), "place": (many, len(PLACE)), "spec": (many, len(SPEC)),
            "graph_mean": (len(GRAPH),), "graph_spread": (len(GRAPH),),
            "place_mean": (len(PLACE),), "place_spread": (len(PLACE),),
            **dict.fromkeys(("log_roof", "residual", "noise", *_CODES), (many,)),
        }  # fmt: skip
        sound = all(held[name].shape == shape for name, shape in shapes.items())
    except KeyError as missing:
        raise DocumentError(path, f"lacks the array {missing}") from None
    if not sound or not all(np.isfinite(array).all() for array in held.values()):
        raise DocumentError(path, "holds an array of a wrong shape, or a value that is no number")
    if cases.device.max(initial=0) >= len(manifest.platforms):
        raise DocumentError(path, "has cases of a platform that the manifest does not name")
    amplitudes = np.array([manifest.amplitudes[level] for level in LEVELS])
    if amplitudes.shape != (len(LEVELS), len(TERMS)):
        raise DocumentError(folder, f"each level has {len(TERMS)} amplitudes", key="amplitudes")
    kernel = TransferKernel(
        scale, amplitudes, manifest.graph_length, manifest.place_length, manifest.noise
    )  # fmt: skip
    posterior = TransferPosterior(
        kernel, manifest.offset, cases, held["weights"],
        tuple(entry.platform for entry in manifest.platforms), manifest.stacks,
        Own(
            np.array([entry.novelty_scale for entry in manifest.platforms]),
            np.array([entry.shift for entry in manifest.platforms]),
        ),
        _known(manifest.platforms, "samples"),
        _known(manifest.platforms, "threads"),
        _known(manifest.platforms, "log_width"),
        manifest.widths,
        manifest.id,
        held["residual"],
    )  # fmt: skip
    return posterior, held["residual"], held["noise"], manifest


def _known(entries: Sequence[PlatformEntry], key: str) -> dict[str, Any]:
    values = {entry.platform: getattr(entry, key) for entry in entries}
    return {platform: value for platform, value in values.items() if value is not None}
