"""Read the bundle of language models: a manifest with the calibrated effects and the kernels of
each head, and an array file with the measured rows that their Gaussian processes stand on.

A head is the learnt model of one quantity: ``offline``, ``saturated``, ``ttft`` or ``tpot`` time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import DocumentError
from berth.predictor.core.arrays import array_file, read_arrays
from berth.predictor.core.bundle import (
    MANIFEST,
    SHIPPED_BUNDLES,
    BundleManifest,
    LogWidth,
    Training,
    check_complete,
    check_features,
    read_manifest,
)
from berth.predictor.families.language_model.physics import HEADS, TERMS, TermEffects
from berth.predictor.families.language_model.residual import (
    NUMBERS,
    TIES,
    Codes,
    Residual,
    ResidualKernel,
)
from berth.predictor.families.language_model.situation import MeasuredCase, Similarity, Situation

LLM_SCHEMA = "berth.llm-bundle/4"
RESIDUALS = "residuals.npz"
_MOST_BYTES = 64 * 2**20
_PARTS = {"ties": np.int64, "numbers": np.float64, "weights": np.float64}
UNMEASURED = math.log(10.0)
"""Half width in log time where the framework was not measured (``Situation.APART``): an
assumption."""
DEFAULT_LLM_BUNDLE = SHIPPED_BUNDLES / "llm"


_NO_WIDTH = LogWidth(log_width=0, rows=1, groups=1, split="none")


class Widths(Document):
    """Half widths of the 90 % interval of one head, which add in quadrature."""

    situations: dict[Situation, LogWidth]
    lengths: LogWidth
    """For ``Similarity.lengths`` of 1; with its square root, as a random walk."""
    sequences: LogWidth
    """For ``Similarity.sequences`` of 1; with its square root."""
    relative: LogWidth
    """On a device that was not itself measured."""
    framework: LogWidth | None = None
    """With a server that another stands for; None: too few servers were measured."""

    def of(self, situation: Situation) -> LogWidth:
        """Return the width in a situation; where it was not measured, that of the next less similar
        one, or the widest."""
        order = list(Situation)
        less_similar = order[order.index(situation) :]
        return next(
            (self.situations[each] for each in less_similar if each in self.situations),
            max(self.situations.values(), key=lambda width: width.log_width),
        )

    def log_width(self, similarity: Similarity) -> float:
        """Return the half width in log time: the root of the sum of squares of what the situation,
        the load and the device contribute."""
        other = self.framework if similarity.framework else _NO_WIDTH
        if similarity.situation is Situation.APART or other is None:
            return UNMEASURED
        return math.hypot(
            self.of(similarity.situation).log_width,
            self.lengths.log_width * math.sqrt(similarity.lengths),
            self.sequences.log_width * math.sqrt(similarity.sequences),
            self.relative.log_width * (not similarity.is_measured),
            other.log_width,
        )


class HeadEntry(Codes):
    """Manifest entry of one head (learnt quantity): its training data and interval widths."""

    head: str
    cells: tuple[MeasuredCase, ...]
    """What was measured, and at which loads."""
    rows: int = Field(ge=1)
    widths: Widths
    effects: TermEffects
    """Calibrated factors of the physical model."""
    kernels: tuple[ResidualKernel, ...]
    mean: float
    """Log seconds that the Gaussian process adds far from all measured rows."""


class LlmManifest(BundleManifest):
    """Contents of ``manifest.json`` of a language-model bundle."""

    schema_: str = Field(default=LLM_SCHEMA, alias="schema")
    heads: tuple[HeadEntry, ...]
    ties: tuple[str, ...]
    numbers: tuple[str, ...]
    training: Training


@dataclass(frozen=True, slots=True)
class LlmHead:
    """The learnt model of one quantity (of ``physics.HEADS``), ready to predict."""

    entry: HeadEntry
    residual: Residual


@dataclass(frozen=True, slots=True)
class LlmModel:
    """The heads (learnt quantities) of a language-model bundle, ready to predict."""

    heads: dict[str, LlmHead]
    id: str


def verify(folder: Path = DEFAULT_LLM_BUNDLE) -> LlmManifest:
    """Return the manifest of a language-model bundle after all checksums match. Raises
    DocumentError."""
    manifest = read_manifest(folder, LlmManifest)
    check_complete(folder, manifest, [RESIDUALS])
    check_features(
        folder,
        same=(manifest.ties, manifest.numbers) == (TIES, NUMBERS),
        key="numbers",
        retrain="python -m lab language-models --train",
    )
    if tuple(e.head for e in manifest.heads) != HEADS:
        raise DocumentError(folder / MANIFEST, f"must have the heads {', '.join(HEADS)}")
    for entry in manifest.heads:
        effects = entry.effects
        sizes = {len(effects.terms), len(effects.shared), *map(len, effects.groups.values())}
        if effects.terms != TERMS[entry.head] or len(sizes) != 1:
            raise DocumentError(folder / MANIFEST, f"effects do not fit the head {entry.head!r}")
    return manifest


def load(folder: Path = DEFAULT_LLM_BUNDLE) -> LlmModel:
    """Return the verified language-model bundle in ``folder``. Raises DocumentError for a broken
    bundle."""
    manifest = verify(folder)
    stored = read_arrays(folder / RESIDUALS, _MOST_BYTES)
    heads = {
        entry.head: LlmHead(entry, _residual(entry, stored, folder / RESIDUALS))
        for entry in manifest.heads
    }
    return LlmModel(heads, manifest.id)


def residuals_file(residuals: Mapping[str, Residual]) -> bytes:
    """Return the bytes of ``RESIDUALS`` from the residual of each head."""
    return array_file({
        f"{part}/{head}": getattr(residual, part).astype(np.int32 if part == "ties" else np.float64)
        for head, residual in residuals.items()
        for part in _PARTS
    })  # fmt: skip


def _residual(entry: HeadEntry, stored: Mapping[str, Any], path: Path) -> Residual:
    try:
        parts = {name: stored[f"{name}/{entry.head}"].astype(kind) for name, kind in _PARTS.items()}
    except KeyError as missing:
        raise DocumentError(path, f"lacks the array {missing}") from None
    except ValueError:  # not of numbers
        parts = {}
    shapes = [(entry.rows, len(TIES)), (entry.rows, len(NUMBERS)), (entry.rows,)]
    if [array.shape for array in parts.values()] != shapes or not all(
        np.isfinite(array).all() for array in parts.values()
    ):
        raise DocumentError(path, f"holds arrays that do not fit the head {entry.head!r}")
    return Residual(entry.kernels, entry.mean, **parts)
