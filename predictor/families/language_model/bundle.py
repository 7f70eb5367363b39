"""The bundle of language models: manifest, effects (JSON), one residual a head (ONNX)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
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

LLM_SCHEMA = "berth.llm-bundle/1"
EFFECTS_SCHEMA = "berth.llm-effects/1"
EFFECTS = "effects.json"
DEFAULT_LLM_BUNDLE = SHIPPED_BUNDLES / "llm"


def residual_file(head: str) -> str:
    """Return the name of a head's ONNX."""
    return f"residual-{head}.onnx"


class Situation(StrEnum):
    """How like what was measured a case is; each has its own width, from its own split."""

    BLOCK = "block"
    """This model on this accelerator with this framework, under another load."""
    PAIR = "pair"
    """Other models on this accelerator with this framework."""
    APART = "apart"
    """Accelerator and framework are known, not together."""
    NEW = "new"
    """Nothing was measured on this accelerator."""


class Width(Document):
    """Half width of the 90 % interval in log, from cases that nothing was fitted on."""

    log_width: float = Field(gt=0)
    rows: int = Field(ge=1)
    groups: int = Field(ge=1)
    split: str
    process: bool
    """Whether the residual is added there; physics alone where it did not help."""


class HeadEntry(Document):
    """One quantity: what it was learnt from and how sure it is."""

    head: str
    accelerators: tuple[str, ...]
    frameworks: tuple[str, ...]
    models: tuple[str, ...]
    """Signatures."""
    pairs: tuple[str, ...]
    """``accelerator | framework``."""
    blocks: tuple[str, ...]
    """``accelerator | framework | signature``."""
    rows: int = Field(ge=1)
    widths: dict[Situation, Width]


class LlmManifest(BundleManifest):
    """``manifest.json``."""

    schema_: str = Field(default=LLM_SCHEMA, alias="schema")
    heads: tuple[HeadEntry, ...]
    ties: tuple[str, ...]
    numbers: tuple[str, ...]
    training: Training


class EffectsFile(Document):
    """``effects.json``."""

    schema_: str = Field(default=EFFECTS_SCHEMA, alias="schema")
    heads: tuple[Effects, ...]


@dataclass(frozen=True, slots=True)
class Head:
    """A quantity that is ready to predict."""

    entry: HeadEntry
    effects: Effects
    residual: Residual
    codes: Codes
    pairs: frozenset[str]
    blocks: frozenset[str]


@dataclass(frozen=True, slots=True)
class LlmModel:
    """All heads of a bundle, ready to predict."""

    heads: dict[str, Head]
    id: str


def verify(folder: Path = DEFAULT_LLM_BUNDLE) -> LlmManifest:
    """Return the manifest, after every checksum has been compared. Raises DocumentError."""
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
    """Verify and load. Raises DocumentError where anything about it is wrong."""
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
            frozenset(entry.pairs),
            frozenset(entry.blocks),
        )
    return LlmModel(heads, manifest.id)
