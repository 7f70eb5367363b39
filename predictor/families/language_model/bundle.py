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

from berth.pilot.errors import DocumentError
from berth.predictor.core.arrays import array_file, read_arrays
from berth.predictor.core.bundle import (
    MANIFEST,
    SHIPPED_BUNDLES,
    BundleManifest,
    Training,
    check_complete,
    check_features,
    read_manifest,
)
from berth.predictor.families.language_model.candidates import (
    MeasuredRows,
    Novelty,
    RuleChoice,
)
from berth.predictor.families.language_model.physics import (
    HEADS,
    SATURATED,
    TERMS,
    TermEffects,
)
from berth.predictor.families.language_model.residual import (
    NUMBERS,
    TIES,
    Codes,
    Residual,
    ResidualKernel,
)
from berth.predictor.families.language_model.situation import MeasuredCase, Similarity

LLM_SCHEMA = "berth.llm-bundle/6"
RESIDUALS = "residuals.npz"
_MOST_BYTES = 64 * 2**20
_PARTS = {"ties": np.int64, "numbers": np.float64, "weights": np.float64}
_MEASURED = ("log_seconds", "log_roofs")
UNMEASURED = math.log(10.0)
"""Half width in log time where the server was not measured (``Similarity.apart``): assumed."""
DEFAULT_LLM_BUNDLE = SHIPPED_BUNDLES / "llm"


class HeadEntry(Codes):
    """Manifest entry of one head (learnt quantity): its training data and interval widths."""

    head: str
    cells: tuple[MeasuredCase, ...]
    """What was measured, and at which loads."""
    rows: int = Field(ge=1)
    effects: TermEffects
    """Calibrated factors of the physical model."""
    kernels: tuple[ResidualKernel, ...]
    mean: float
    """Log seconds that the Gaussian process adds far from all measured rows."""
    choices: tuple[RuleChoice, ...] = Field(min_length=1)
    """Which rule answers where something, or nothing, is new, and the interval that it needed."""

    def choice(self, novelty: Novelty) -> RuleChoice:
        """Return the choice where this is new; where no folds of this kind were measured, that
        where nothing is."""
        return next((each for each in self.choices if each.novelty is novelty), self.choices[-1])

    def log_width(self, similarity: Similarity, others: Mapping[Novelty, float]) -> float:
        """Return the half width in log time of the rule that answers: what it needed on held-out
        folds where the same is new, and, in quadrature, what a load or a server needs that is new
        beside that; at least that of a new version where no version of the server was published.
        ``others``: of ``LlmModel.log_widths``, for what this head has no folds of."""
        if similarity.apart:
            return UNMEASURED
        beside = {Novelty.LOAD: similarity.outside, Novelty.SERVER: bool(similarity.framework)}
        widths = {**others, **{each.novelty: each.log_width for each in self.choices}}
        width = math.hypot(
            self.choice(similarity.novelty).log_width,
            *(
                widths.get(novelty, UNMEASURED)
                for novelty, is_new in beside.items()
                if is_new and self.choice(similarity.novelty).novelty is not novelty
            ),
        )
        # Rows at full load say as little of fewer requests as of another version: TensorRT-LLM's
        # 985 closed loads needed 0.88.
        few = self.head == SATURATED and similarity.outside
        is_published = any(cell.versions for cell in self.cells) and not few
        return width if is_published else max(width, others.get(Novelty.VERSION, 0.0))


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
    measured: MeasuredRows


@dataclass(frozen=True, slots=True)
class LlmModel:
    """The heads (learnt quantities) of a language-model bundle, ready to predict."""

    heads: dict[str, LlmHead]
    id: str

    @property
    def log_widths(self) -> dict[Novelty, float]:
        """Return the half width in log time where one thing is new, of the first head that has
        folds of it: for heads of which one server alone, or no version, was published."""
        entries = [head.entry for head in reversed(self.heads.values())]
        return {each.novelty: each.log_width for entry in entries for each in entry.choices}


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
    heads = {entry.head: _head(entry, stored, folder / RESIDUALS) for entry in manifest.heads}
    return LlmModel(heads, manifest.id)


def residuals_file(
    residuals: Mapping[str, Residual], measured: Mapping[str, MeasuredRows]
) -> bytes:
    """Return the bytes of ``RESIDUALS`` from the residual and the measured rows of each head."""
    learnt = {
        f"{part}/{head}": getattr(residual, part).astype(np.int32 if part == "ties" else np.float64)
        for head, residual in residuals.items()
        for part in _PARTS
    }
    rows = {
        f"{part}/{head}": getattr(each, part).astype(np.float32).astype(np.float64)
        for head, each in measured.items()
        for part in _MEASURED
    }
    return array_file({**learnt, **rows})


def _head(entry: HeadEntry, stored: Mapping[str, Any], path: Path) -> LlmHead:
    kinds = {**_PARTS, **dict.fromkeys(_MEASURED, np.float64)}
    try:
        parts = {name: stored[f"{name}/{entry.head}"].astype(kind) for name, kind in kinds.items()}
    except KeyError as missing:
        raise DocumentError(path, f"lacks the array {missing}") from None
    except ValueError:  # not of numbers
        parts = {}
    shapes = [(entry.rows, len(TIES)), (entry.rows, len(NUMBERS)), *[(entry.rows,)] * 3]
    if [array.shape for array in parts.values()] != shapes or not all(
        np.isfinite(array).all() for array in parts.values()
    ):
        raise DocumentError(path, f"holds arrays that do not fit the head {entry.head!r}")
    seconds, roofs = (parts.pop(name) for name in _MEASURED)
    if not ((parts["ties"][:, 0] >= 0) & (parts["ties"][:, 0] < len(entry.accelerators))).all():
        raise DocumentError(path, f"names accelerators that the head {entry.head!r} has not")
    return LlmHead(
        entry,
        Residual(entry.kernels, entry.mean, **parts),
        MeasuredRows(entry.accelerators, parts["ties"], parts["numbers"], seconds, roofs),
    )
