"""The bundle of the program family: JSON manifest, ONNX models and range data; no pickles.

A bundle is a folder. ``manifest.json`` lists every other file with its SHA-256. The bundle's id is
the digest of all data that its predictions depend on, so equal data, seed and code give an equal
id. All files are verified before a model is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.platform import Platform
from berth.pilot.profile import Name, Positive
from berth.predictor.core.arrays import Floats
from berth.predictor.core.bundle import (
    SHIPPED_BUNDLES,
    BundleManifest,
    check_complete,
    check_features,
    open_model,
    read_manifest,
    regressed,
)
from berth.predictor.families.program.features import FEATURES, WORK_FEATURES
from berth.predictor.families.program.range_check import RANGE, RangeCheck

if TYPE_CHECKING:
    import onnxruntime

BUNDLE_SCHEMA = "berth.bundle/1"
DEFAULT_BUNDLE = SHIPPED_BUNDLES / "default"
"""Folder of the shipped bundle."""


class Formula(Document):
    """Constants of the formula that gives a predicted time from roofline times.

    ``t = fixed + reduction_s * reductions + parallel * exp(bias) * efficiency**carry``, where

    - ``t``: predicted time (s);
    - ``fixed`` (s): roofline time of launches and contended atomic updates;
    - ``parallel`` (s): roofline time of everything else;
    - ``reductions``: number of parallel regions with almost no stores (``Work.reductions``);
    - ``efficiency``: measured time on the reference over the roofline time there;
    - ``bias``: fitted log factor; the learnt correction is added to it;
    - ``carry``: fitted exponent (1: the program has the same efficiency on the other platform).
    """

    bias: float
    carry: float
    reduction_s: float = Field(default=0.0, ge=0)
    """Seconds that a GPU needs to fetch the result of one reduction."""

    def fixed_s(self, fixed_s: Floats, reductions: Floats) -> Floats:
        """Return the seconds that do not depend on the program's efficiency."""
        return np.asarray(fixed_s + self.reduction_s * reductions)

    def log_time(
        self,
        fixed_s: Floats,
        parallel_s: Floats,
        reductions: Floats,
        log_efficiency: Floats | float,
        residual: Floats | float = 0.0,
    ) -> Floats:
        """Return the predicted log of seconds; ``residual``: the learnt correction."""
        stretch = np.exp(self.bias + residual + self.carry * log_efficiency)
        return np.asarray(np.log(self.fixed_s(fixed_s, reductions) + parallel_s * stretch))


class Calibration(Formula):
    """The formula with the errors of its predictions."""

    score_quantile: Positive
    """90 % quantile of ``|log error| / difficulty`` without the learnt correction
    (``core.intervals``)."""


class OwnTime(Document):
    """How programs run on a CPU beyond what the speeds of the cores tell (``between_cpus``)."""

    log_factor: float
    """Natural log of measured time over time predicted from the own time on another CPU."""
    standard_error: float = Field(ge=0)
    deviation: Positive
    """Standard deviation of the log time of programs around that factor."""


class Labelled(Document):
    """A platform on which training programs were timed, and the correction model trained on these
    times."""

    platform: Name
    cores: int = Field(ge=0)
    """Number of cores that the training programs used; 0 on a GPU platform."""
    gpus: int = Field(ge=0)
    rows: int = Field(ge=1)
    """Number of measured times."""
    kernels: int = Field(ge=1)
    """Number of different kernels among the measured times."""
    label: str
    """Data set and selection of rows that the measured times come from."""
    model: str | None = None
    """File name of the ONNX model of the learnt correction; None: there is none."""
    prior: Calibration | None
    """None: whole programs were timed there, which tell ``own_time`` and nothing of loops."""
    dead_zone: float = Field(default=0.0, ge=0)
    """Size below which a learnt log correction counts as noise and is set to 0, see ``firm``."""
    score_quantile: Positive
    """90 % quantile of ``|log error| / difficulty`` with the learnt correction
    (``core.intervals``)."""
    hardware: Platform
    """The platform as it was described when the model was trained."""
    reference: Name | None = None
    """Platform whose profiles the model was trained on; None: the bundle's reference platform."""
    own_time: OwnTime | None = None
    """Correction of predictions from CPU to CPU; None: there is none."""


class ProgramTraining(Document):
    """The data, settings and libraries that the bundle was trained with."""

    profiles_sha256: str
    labels_sha256: str
    rows: int
    kernels: int
    sizes: tuple[float, ...]
    seed: int
    hyperparameters: dict[str, float]
    libraries: dict[str, str]


class Manifest(BundleManifest):
    """The content of a program bundle's ``manifest.json``."""

    schema_: str = Field(default=BUNDLE_SCHEMA, alias="schema")
    reference: Name
    """Platform that the training profiles were measured on."""
    features: tuple[str, ...]
    labelled: tuple[Labelled, ...] = Field(min_length=1)
    typical_log_efficiency: float
    """Mean over the training kernels of log(measured reference time / roofline time)."""
    priors: dict[str, Calibration]
    """Calibrations for platforms without measured times; the keys are ``cpu`` and ``gpu``."""
    training: ProgramTraining

    def own_time_between(self, home: str, target: str) -> OwnTime | None:
        """Return the correction of times on ``target`` by own times on ``home``; None: no label
        tells one.

        Labels are relative to the platform that their programs were piloted on. What the ways of
        both to it have in common cancels, so that the way back is the inverse.
        """
        back, there = dict(self._way(home)), dict(self._way(target))
        shared = back.keys() & there.keys()
        forwards = [step for name, step in there.items() if step and name not in shared]
        backwards = [step for name, step in back.items() if step and name not in shared]
        if not forwards and target not in shared:
            return None
        if not (steps := [*forwards, *backwards]):
            return None
        return OwnTime(
            log_factor=sum(s.log_factor for s in forwards) - sum(s.log_factor for s in backwards),
            standard_error=math.hypot(*(step.standard_error for step in steps)),
            deviation=max(step.deviation for step in steps),
        )

    def _way(self, name: str) -> Iterator[tuple[str, OwnTime | None]]:
        """Yield the platform and those that labels lead back to, each with the correction of its
        times by those on the next."""
        by_name = {entry.platform: entry for entry in self.labelled}
        while (entry := by_name.pop(name, None)) is not None and entry.own_time is not None:
            yield name, entry.own_time
            name = entry.reference or self.reference
        yield name, None


@dataclass(frozen=True, slots=True)
class ProgramBundle:
    """A verified program bundle with its ONNX models loaded."""

    folder: Path
    manifest: Manifest
    models: Mapping[str, onnxruntime.InferenceSession]
    """ONNX sessions of the learnt correction, by labelled platform."""
    dead_zones: Mapping[str, float]
    range_check: RangeCheck

    @property
    def id(self) -> str:
        """Return the bundle's id, a digest."""
        return self.manifest.id

    def residual(self, platform: str, rows: Floats) -> Floats:
        """Return the log correction that one platform's model predicts for each feature row; 0
        where the platform has no model."""
        if platform not in self.models:
            return np.zeros(len(rows))
        return firm(regressed(self.models[platform], rows), self.dead_zones[platform])


def firm(residuals: Floats, dead_zone: float) -> Floats:
    """Return model residuals after firm shrinkage: sizes below ``dead_zone`` become 0.

    Sizes above twice ``dead_zone`` stay, and sizes between are mapped linearly. Source: Gao and
    Bruce, "WaveShrink with firm shrinkage", Statistica Sinica 7, 1997.
    """
    size = np.abs(residuals)
    shrunk = np.minimum(size, np.maximum(0.0, 2.0 * (size - dead_zone)))
    return np.asarray(np.sign(residuals) * shrunk)


def verify(folder: Path) -> Manifest:
    """Return the manifest of the bundle in ``folder`` after verifying the checksum of every file.

    Raises DocumentError.
    """
    manifest = read_manifest(folder, Manifest)
    check_complete(folder, manifest, files_of(manifest.labelled))
    check_features(folder, same=manifest.features == FEATURES, key="features")
    return manifest


def files_of(labelled: Iterable[Labelled]) -> set[str]:
    """Return the names of all files in a program bundle, except the manifest and the model card."""
    return {RANGE, *(entry.model for entry in labelled if entry.model)}


def load(folder: Path = DEFAULT_BUNDLE) -> ProgramBundle:
    """Return the program bundle in ``folder`` with its models, after verifying every file.

    Raises DocumentError for a missing or invalid file.
    """
    manifest = verify(folder)
    models = {e.platform: open_model(folder / e.model) for e in manifest.labelled if e.model}
    dead_zones = {entry.platform: entry.dead_zone for entry in manifest.labelled}
    check = RangeCheck.read(folder / RANGE, WORK_FEATURES)
    return ProgramBundle(folder, manifest, models, dead_zones, check)
