"""Bundles for relative performance on many platforms: a manifest and one ONNX model.

``model.onnx`` leads from ``features`` (rows x counters + 1: log(1 + counter), log of the time on
the reference; float32) to ``log_speedup`` (rows x platforms). The manifest has the widths of
intervals, and ``range.json`` the range of the training programs; both exist only with enough of
these.

The manifest lists the counters that had one value in all training programs (``constants``). A model
cannot learn from such a counter: without this check, a program with 32 threads would get the
prediction of a single-threaded program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from berth.pilot.catalogue import BY_NAME
from berth.pilot.errors import DocumentError, UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.core.bundle import (
    MANIFEST,
    BundleManifest,
    Training,
    check_complete,
    open_model,
    read_manifest,
)
from berth.predictor.families.program.range_check import RANGE, RangeCheck
from berth.predictor.families.relative.rows import Rows

if TYPE_CHECKING:
    import onnxruntime


RELATIVE_SCHEMA = "berth.relative-bundle/1"
ONNX = "model.onnx"


class RelativeTraining(Training):
    """What a bundle of relative performance was trained on."""

    rows: int = Field(ge=1)
    applications: tuple[str, ...] = Field(min_length=1)


class RelativeManifest(BundleManifest):
    """The manifest of a bundle for relative performance (``manifest.json``)."""

    schema_: str = Field(default=RELATIVE_SCHEMA, alias="schema")
    family: str
    what: str
    kind: Literal["onnx"] = "onnx"
    counters: tuple[str, ...] = Field(min_length=1)
    platforms: tuple[str, ...] = Field(min_length=2)
    reference: str
    constants: dict[str, float] | None = None
    """Counters that had one value in all training programs; the model does not use them."""
    log_widths: dict[str, float] | None = None
    """Half width of the 90 % interval in log time by platform; None: learnt from too few
    applications."""
    unmeasured: tuple[str, ...] | None = None
    """Platforms without any measured time in training; their predictions are priors."""
    training: RelativeTraining


@dataclass(frozen=True, slots=True)
class RelativeModel:
    """A loaded bundle: manifest, model and range of the training rows."""

    manifest: RelativeManifest
    model: OnnxModel
    range_check: RangeCheck | None = None
    """Check that a row is within the range of the training rows; None: learnt from too few."""

    @property
    def id(self) -> str:
        """Return the bundle's id."""
        return self.manifest.id

    def log_seconds(self, rows: Rows) -> Floats:
        """Return predicted log seconds [rows, platforms].

        Raises UsageError where the rows' counters or platforms are not those of the training.
        """
        return self.model.log_seconds(rows)


def verify(folder: Path) -> RelativeManifest:
    """Return the manifest after verifying every checksum. Raises DocumentError."""
    manifest = read_manifest(folder, RelativeManifest)
    check_complete(folder, manifest, (ONNX, *((RANGE,) if manifest.log_widths else ())))
    if manifest.reference not in manifest.platforms:
        raise DocumentError(folder / MANIFEST, "is not among the platforms", key="reference")
    return manifest


def load(folder: Path) -> RelativeModel:
    """Return the bundle after verifying it. Raises DocumentError for a missing or invalid file."""
    manifest = verify(folder)
    described = manifest.counters, manifest.platforms, manifest.reference
    model = OnnxModel(*described, open_model(folder / ONNX))
    if manifest.log_widths is None:
        return RelativeModel(manifest, model)
    names = tuple(log_name(name) for name in manifest.counters)
    return RelativeModel(manifest, model, RangeCheck.read(folder / RANGE, names))


def log_name(counter: str) -> str:
    """Return what range checks call a counter."""
    return f"log(1 + {counter})"


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """Any ONNX network or ensemble from log counters to log speedups."""

    counters: tuple[str, ...]
    platforms: tuple[str, ...]
    reference: str
    session: onnxruntime.InferenceSession

    def log_seconds(self, rows: Rows) -> Floats:
        """Return predicted log seconds [rows, platforms]; known times are returned unchanged.

        Raises UsageError where the rows' counters or platforms are not the model's.
        """
        check_counters(rows, self.counters)
        if (rows.platforms, rows.reference) != (self.platforms, self.reference):
            raise UsageError(
                f"the model predicts {', '.join(self.platforms)} from {self.reference}, "
                "not these platforms"
            )
        features = np.column_stack([np.log1p(rows.values), rows.log_reference])
        (speedup,) = self.session.run(["log_speedup"], {"features": features.astype(np.float32)})
        guess = rows.log_reference[:, None] - np.asarray(speedup, dtype=np.float64)
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)


def check_counters(rows: Rows, counters: tuple[str, ...]) -> None:
    """Raise UsageError where ``rows`` has other counters than ``counters``, those of the
    training."""
    if rows.counters == counters:
        return
    if absent := [name for name in counters if name not in rows.counters]:
        raise UsageError(f"the counter {absent[0]!r}, which the model was trained on, is not given")
    unknown = [name for name in rows.counters if name not in counters]
    raise UsageError(
        f"the counter {unknown[0]!r} is unknown to the model"
        if unknown
        else "the counters are in another order than the model was trained on",
        hint=f"it was trained on: {', '.join(counters)}",
    )


WIDEST_SAME_FACTOR = 1.5
"""Largest ratio of two counter values that count as equal; two threads differ from one."""
_LEAST, _LEAST_RATIO = 1.0, 0.1
"""Values to which smaller counter values are raised before their ratio is taken.

The second value is for counters that are ratios themselves.
"""
_LEAST_EVENTS = 1000.0
"""The value to which smaller event counts are raised.

Two page faults or atomic updates among millions of instructions thereby count as none.
"""
_UNITS_OF_RUN = frozenset(("threads", "processes"))
"""Counters of threads and processes: 2 must differ from 1."""


def unlike_constants(
    constant_counters: Mapping[str, float], values: Mapping[str, float]
) -> str | None:
    """Return a sentence on the first counter whose value differs from its constant training value.

    None: no counter differs. Counters that ``values`` lacks are skipped.
    """
    for name, usual in constant_counters.items():
        if name not in values:
            continue
        least = _least(name)
        low, high = sorted((max(values[name], least), max(usual, least)))
        if high > WIDEST_SAME_FACTOR * low:
            return (
                f"{name} is {values[name]:.3g}, and {usual:.3g} in all programs that the bundle "
                "was trained on"
            )
    return None


def _least(name: str) -> float:
    entry = BY_NAME.get(name)
    if entry is None or name in _UNITS_OF_RUN:
        return _LEAST
    if entry.unit == "ratio":
        return _LEAST_RATIO
    return _LEAST_EVENTS if entry.unit == "count" else _LEAST
