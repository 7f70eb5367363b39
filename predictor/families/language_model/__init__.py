"""Language models from their configuration: throughput, latency, memory, energy.

A Hugging Face ``config.json`` and a load (batch, lengths, parallelism, bits) on an accelerator:
counting (``config``, ``memory``), physics calibrated by framework (``physics``), what it misses
(``residual``, an ONNX), and all of it together with intervals (``predictor``). Serving needs
numpy and onnxruntime only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.predictor.core.family import Bundles, FamilyEntry

if TYPE_CHECKING:
    from berth.predictor.families.language_model.language_model_family import LanguageModelFamily


def _load(bundles: Bundles) -> LanguageModelFamily:
    from berth.predictor.families.language_model.language_model_family import LanguageModelFamily  # noqa: PLC0415

    return LanguageModelFamily.load(bundles)


FAMILY = FamilyEntry(
    "language_model",
    ("language-model",),
    _load,
    bundle_readers={"berth.llm-bundle/1": "berth.predictor.families.language_model.bundle"},
)
