"""Language models from their configuration: throughput, latency, memory, energy.

A Hugging Face ``config.json`` and a load (batch, lengths, parallelism, bits) on an accelerator:
counting (``config``, ``memory``), physics calibrated by framework (``physics``), what it misses
(``residual``, an ONNX), and all of it together with intervals (``predictor``). Serving needs
numpy and onnxruntime only.
"""

from __future__ import annotations

from berth.predictor.core.family import FamilyEntry, load_from

_HERE = "berth.predictor.families.language_model"
FAMILY = FamilyEntry(
    "language_model",
    ("language-model",),
    load_from(f"{_HERE}.language_model_family", "LanguageModelFamily"),
    bundle_readers={"berth.llm-bundle/1": f"{_HERE}.bundle"},
)
