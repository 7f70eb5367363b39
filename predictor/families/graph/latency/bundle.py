"""Read and write the bundle of learnt times: a manifest, and arrays of one Gaussian process for
each setting.

The arrays hold weights and the descriptors of measured models (no names, no graphs). A *setting* is
a platform with a precision, a memory layout and a software; each platform has a default setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import DocumentError
from berth.predictor.core.arrays import Floats, read_arrays
from berth.predictor.core.bundle import (
    SHIPPED_BUNDLES,
    BundleManifest,
    Training,
    check_complete,
    read_manifest,
)
from berth.predictor.families.graph.latency.process import (
    DESCRIPTORS,
    TERMS,
    DescriptorScale,
    LatencyProcess,
)
from berth.predictor.hardware.device import Numbers

LATENCY_SCHEMA = "berth.model-latency/1"
ARRAYS = "processes.npz"
DEFAULT_LATENCY = SHIPPED_BUNDLES / "model-latency"
_MOST_BYTES = 128 * 2**20
_PARTS = ("coefficients", "centre", "spread", "points", "pull")


class SettingEntry(Document):
    """One setting (platform, precision, software) of the bundle, with the range and error of its
    times."""

    name: str
    platform: str
    numbers: Numbers
    software: str
    usual: bool
    """Whether this is the default setting of the platform in this precision."""
    offset: float
    rows: int = Field(ge=1)
    batches: tuple[int, int]
    """Smallest and largest measured batch."""
    log_width: float = Field(gt=0)
    """Half width of the 90 % interval in log time, at a difficulty (``process``) of 1."""


class LatencyTraining(Training):
    """Training data and fitted hyperparameters of the bundle."""

    length: float = Field(gt=0)
    noise: float = Field(gt=0)
    graphs: int = Field(ge=1)


class LatencyManifest(BundleManifest):
    """Contents of ``manifest.json`` of a bundle of learnt times."""

    schema_: str = Field(default=LATENCY_SCHEMA, alias="schema")
    settings: tuple[SettingEntry, ...] = Field(min_length=1)
    terms: tuple[str, ...]
    descriptors: tuple[str, ...]
    split: str
    """Held-out split on which the interval widths were calibrated."""
    novel: float = Field(gt=0)
    """Difficulty above which a model counts as unlike all measured models."""
    training: LatencyTraining


@dataclass(frozen=True, slots=True)
class LatencySetting:
    """A setting with its loaded process, ready to predict."""

    entry: SettingEntry
    process: LatencyProcess


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """The settings of a latency bundle (platform, precision, software), ready to predict."""

    settings: tuple[LatencySetting, ...]
    novel: float
    id: str


def arrays_of(processes: Mapping[str, LatencyProcess]) -> Mapping[str, Floats]:
    """Return the arrays to store in ``ARRAYS``, keyed ``part/setting``, from the process of each
    setting."""
    arrays: dict[str, Any] = {}
    for name, process in processes.items():
        held = (process.coefficients, process.scale.centre, process.scale.spread)
        arrays |= {f"{part}/{name}": x for part, x in zip(_PARTS, held, strict=False)}
        arrays[f"points/{name}"] = process.points.astype(np.float32)
        arrays[f"pull/{name}"] = process.pull
    return arrays


def verify(folder: Path = DEFAULT_LATENCY) -> LatencyManifest:
    """Return the manifest of a latency bundle after all checksums match. Raises DocumentError."""
    manifest = read_manifest(folder, LatencyManifest)
    check_complete(folder, manifest, [ARRAYS])
    if (manifest.terms, manifest.descriptors) != (TERMS, DESCRIPTORS):
        raise DocumentError(
            folder, "was made with other features than this version of Berth computes",
            key="descriptors", hint="run `python -m lab model-latency --train` with this version",
        )  # fmt: skip
    return manifest


def load(folder: Path = DEFAULT_LATENCY) -> LatencyModel:
    """Return the verified latency model in ``folder``. Raises DocumentError for a broken bundle."""
    manifest = verify(folder)
    held = read_arrays(folder / ARRAYS, _MOST_BYTES)
    settings = tuple(_setting(folder / ARRAYS, held, e, manifest) for e in manifest.settings)
    return LatencyModel(settings, manifest.novel, manifest.id)


def _setting(
    path: Path, held: Mapping[str, Any], entry: SettingEntry, manifest: LatencyManifest
) -> LatencySetting:
    try:
        weights, centre, spread, points, pull = (
            held[f"{part}/{entry.name}"].astype(np.float64) for part in _PARTS
        )
    except KeyError as missing:
        raise DocumentError(path, f"lacks the array {missing}") from None
    columns = (len(DESCRIPTORS),)
    shapes = (weights.shape, centre.shape, spread.shape, points.shape, pull.shape)
    if shapes != ((len(TERMS),), columns, columns, (entry.rows, *columns), (entry.rows,)):
        raise DocumentError(path, f"holds an array of a wrong shape for {entry.name!r}")
    if not all(np.isfinite(x).all() for x in (weights, centre, points, pull)) or not (
        (weights >= 0).all() and (spread > 0).all()
    ):
        raise DocumentError(path, f"holds a value that cannot be for {entry.name!r}")
    process = LatencyProcess(
        weights,
        DescriptorScale(centre, spread),
        points,
        manifest.training.length,
        entry.offset,
        pull,
    )
    return LatencySetting(entry, process)
