"""Correct the calibrated physical model by similar measured cases: a Gaussian process in ONNX.

The covariance is a sum of kernels. Each kernel is a squared exponential over some of a case's
``NUMBERS``, multiplied by indicators of equal ``TIES`` (the same accelerator, framework, model,
...). So cases with the same accelerator and framework share corrections, a model's correction
applies on other accelerators too, and without similar measured cases the correction goes to 0.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.config import LanguageModel
from berth.predictor.families.language_model.load import memory
from berth.predictor.families.language_model.physics import Case

if TYPE_CHECKING:
    import onnxruntime

TIES = ("accelerator", "framework", "model", "gpus", "length", "batch", "bits", "experts")
"""Properties that are equal or different between two cases. ``length``: tokens where input and
output are equally long; ``experts``: number of groups of experts."""
NUMBERS = ("context", "batch", "gpus", "room", "active", "total", "cache", "vocabulary",
           "at_once", "input", "output", "bits", "replicas", "dealt")  # fmt: skip
UNKNOWN = -1
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Codes:
    """Names of measured accelerators, frameworks and models; the code of a name is its index."""

    accelerators: tuple[str, ...]
    frameworks: tuple[str, ...]
    models: tuple[str, ...]
    """Signatures of the models (``signature``)."""

    def accelerator(self, name: str) -> int:
        """Return the code of an accelerator; ``UNKNOWN`` if it was not measured."""
        return _place(self.accelerators, name)

    def framework(self, name: str) -> int:
        """Return the code of a framework; ``UNKNOWN`` if it was not measured."""
        return _place(self.frameworks, name)

    def model(self, model: LanguageModel) -> int:
        """Return the code of a model; ``UNKNOWN`` if no model of this shape was measured."""
        return _place(self.models, signature(model))


def signature(model: LanguageModel) -> str:
    """Return a digest of a model's shape; models of the same shape but different names have the
    same digest."""
    parts = (
        model.layers, model.hidden_size, model.heads, round(model.kv_heads * model.layers),
        model.feed_forward_size, model.vocabulary, model.experts, model.experts_per_token,
        model.moe_layers, model.latent_attention,
    )  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def ties(cases: Sequence[Case], frameworks: Sequence[str], codes: Codes) -> Integers:
    """Return the codes of each case's ``TIES``, [cases, len(TIES)]."""
    rows = []
    for case, framework in zip(cases, frameworks, strict=True):
        load = case.load
        same = load.input_tokens == load.output_tokens
        rows.append((
            codes.accelerator(case.device.sheet.name if case.device.whole else ""),
            codes.framework(framework), codes.model(case.model),
            load.gpus, load.input_tokens if same else UNKNOWN, load.batch,
            int(load.weight_bits), load.expert_parallel,
        ))  # fmt: skip
    return np.array(rows, dtype=np.int64).reshape(len(cases), len(TIES))


def numbers(cases: Sequence[Case], *, with_queue: bool) -> Floats:
    """Return the numeric features of each case, [cases, len(NUMBERS)], mostly logarithms scaled so
    that a difference of 1 is large.

    ``with_queue``: whether the batch counts sequences that wait for others, too.
    """
    rows = []
    for case in cases:
        m, load = case.model, case.load
        full = memory(m, load).resident(case.device.memory_bytes)
        mean = full * (load.input_tokens + load.output_tokens) / load.context
        at_once = load.at_once(m, case.device.memory_bytes)
        each = load.batch / load.data_parallel if with_queue else at_once
        length = load.context / 1.5
        cached = m.cached_values(length) / length * load.kv_bits / 8
        room = math.log(min(max(mean, math.exp(-2)), math.exp(3))) - math.log(each)
        rows.append((
            math.log2(length / 512) / 2, math.log2(each * load.data_parallel) / 2,
            math.log2(load.gpus), min(max(room, -3.0), 1.0), math.log(m.active_parameters) - 23,
            math.log(m.parameters) - 23, math.log(max(cached, 1.0)) - 11.5,
            math.log(m.vocabulary) - 11, math.log(at_once) / 1.4,
            math.log2(load.input_tokens / 1024) / 2, math.log2(load.output_tokens / 1024) / 2,
            math.log2(load.weight_bits / 8), math.log2(load.data_parallel),
            math.log2(load.expert_parallel),
        ))  # fmt: skip
    return np.array(rows, dtype=np.float64).reshape(len(cases), len(NUMBERS))


class Residual:
    """The correction of one head (learnt quantity), computed by an ONNX model."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session

    def __call__(self, tied: Integers, numbered: Floats) -> Floats:
        """Return [cases]: the log seconds to add to the physical model's prediction of each
        case."""
        if not len(tied):
            return np.zeros(0)
        (residuals,) = self._session.run(None, {"ties": tied, "numbers": numbered})
        return np.asarray(residuals, dtype=np.float64).reshape(-1)


def _place(names: tuple[str, ...], name: str) -> int:
    return names.index(name) if name in names else UNKNOWN
