"""Predict throughput, latency, memory and energy of served language models from their
configuration.

The input is a Hugging Face ``config.json``, a load (batch, lengths, parallelism, bits) and an
accelerator. ``config`` counts parameters and ``load`` counts memory; ``physics`` is a cost model
calibrated for each framework; ``residual`` corrects its errors by similar measurements;
``predictor`` combines all of these into predictions with intervals. Prediction needs numpy only.
"""

from __future__ import annotations

from berth.predictor.core.family import FamilyEntry, load_from

_HERE = "berth.predictor.families.language_model"
FAMILY = FamilyEntry(
    "language_model",
    ("language-model",),
    load_from(f"{_HERE}.language_model_family", "LanguageModelFamily"),
    bundle_readers={"berth.llm-bundle/6": f"{_HERE}.bundle"},
)
