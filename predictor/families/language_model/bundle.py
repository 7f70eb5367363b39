"""Read the bundle of language models: manifest, effects (JSON), and one residual (ONNX) for each
head.

A head is the learnt model of one quantity: ``offline``, ``saturated``, ``ttft`` or ``tpot`` time.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from berth.pilot.documents import Document, read_json
from berth.pilot.errors import DocumentError
from berth.predictor.core.bundle import (
    MANIFEST,
    SHIPPED_BUNDLES,
    BundleManifest,
    Training,
    check_complete,
    check_features,
    open_model,
    read_manifest,
)
from berth.predictor.families.language_model.physics import HEADS, TERMS, Effects
from berth.predictor.families.language_model.residual import NUMBERS, TIES, Codes, Residual
from berth.predictor.families.language_model.situation import Cell, Situation

LLM_SCHEMA = "berth.llm-bundle/2"
EFFECTS_SCHEMA = "berth.llm-effects/1"
EFFECTS = "effects.json"
DEFAULT_LLM_BUNDLE = SHIPPED_BUNDLES / "llm"


def residual_file(head: str) -> str:
    """Return the file name of a head's residual (ONNX)."""
    return f"residual-{head}.onnx"


class Width(Document):
    """Half width of the 90 % interval in log time, calibrated on held-out cases."""

    log_width: float = Field(gt=0)
    rows: int = Field(ge=1)
    groups: int = Field(ge=1)
    split: str
    process: bool
    """Whether the residual is added; False where it did not improve on the physical model."""


class HeadEntry(Document):
    """Manifest entry of one head (learnt quantity): its training data and interval widths."""

    head: str
    accelerators: tuple[str, ...]
    frameworks: tuple[str, ...]
    models: tuple[str, ...]
    """Signatures of the measured models (``residual.signature``)."""
    cells: tuple[Cell, ...]
    """What was measured, and at which loads."""
    rows: int = Field(ge=1)
    widths: dict[Situation, Width]


class LlmManifest(BundleManifest):
    """Contents of ``manifest.json`` of a language-model bundle."""

    schema_: str = Field(default=LLM_SCHEMA, alias="schema")
    heads: tuple[HeadEntry, ...]
    ties: tuple[str, ...]
    numbers: tuple[str, ...]
    training: Training


class EffectsFile(Document):
    """Contents of ``effects.json``: the calibrated factors of each head."""

    schema_: str = Field(default=EFFECTS_SCHEMA, alias="schema")
    heads: tuple[Effects, ...]


@dataclass(frozen=True, slots=True)
class Head:
    """The learnt model of one quantity (of ``physics.HEADS``), ready to predict."""

    entry: HeadEntry
    effects: Effects
    residual: Residual
    codes: Codes

    def width(self, situation: Situation) -> Width:
        """Return the interval width in a situation; where it was not measured, that of the next
        less similar situation, or of the least similar one."""
        known = self.entry.widths
        order = list(Situation)
        later = [known[each] for each in order[order.index(situation) :] if each in known]
        return later[0] if later else max(known.values(), key=lambda width: width.log_width)


@dataclass(frozen=True, slots=True)
class LlmModel:
    """The heads (learnt quantities) of a language-model bundle, ready to predict."""

    heads: dict[str, Head]
    id: str


def verify(folder: Path = DEFAULT_LLM_BUNDLE) -> LlmManifest:
    """Return the manifest of a language-model bundle after all checksums match. Raises
    DocumentError."""
    manifest = read_manifest(folder, LlmManifest)
    check_complete(folder, manifest, (EFFECTS, *(residual_file(h) for h in HEADS)))
    check_features(
        folder,
        same=(manifest.ties, manifest.numbers) == (TIES, NUMBERS),
        key="numbers",
        retrain="python -m lab language-models --train",
    )
    if tuple(e.head for e in manifest.heads) != HEADS:
        raise DocumentError(folder / MANIFEST, f"must have the heads {', '.join(HEADS)}")
    return manifest


def load(folder: Path = DEFAULT_LLM_BUNDLE) -> LlmModel:
    """Return the verified language-model bundle in ``folder``. Raises DocumentError for a broken
    bundle."""
    manifest = verify(folder)
    effects = {e.head: e for e in read_json(folder / EFFECTS, EffectsFile).heads}
    heads = {}
    for entry in manifest.heads:
        head_effects = effects.get(entry.head)
        if head_effects is None or head_effects.terms != TERMS[entry.head]:
            raise DocumentError(folder / EFFECTS, f"does not fit the head {entry.head!r}")
        sizes = {len(head_effects.shared), *(len(v) for v in head_effects.groups.values())}
        if sizes != {len(head_effects.terms)}:
            raise DocumentError(folder / EFFECTS, f"does not fit together in {entry.head!r}")
        heads[entry.head] = Head(
            entry,
            head_effects,
            Residual(open_model(folder / residual_file(entry.head))),
            Codes(entry.accelerators, entry.frameworks, entry.models),
        )
    return LlmModel(heads, manifest.id)
