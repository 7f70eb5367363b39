"""Correct the calibrated physical model by similar measured cases: a Gaussian process.

The covariance is a sum of kernels (Rasmussen and Williams 2006, section 4.2). Each kernel is a
squared exponential over some of a case's ``NUMBERS``, multiplied by indicators of equal ``TIES``
(the same accelerator, framework, model, ...). So cases with the same accelerator and framework
share corrections, a model's correction applies on other accelerators too, and without similar
measured cases the correction goes to 0.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from berth.pilot.documents import Document
from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.config import LanguageModel
from berth.predictor.families.language_model.load import memory
from berth.predictor.families.language_model.physics import LlmCase

TIES = ("accelerator", "framework", "model", "gpus", "length", "batch", "bits", "experts")
"""Properties that are equal or different between two cases. ``length``: tokens where input and
output are equally long; ``experts``: number of groups of experts."""
NUMBERS = ("context", "batch", "gpus", "room", "active", "total", "cache", "vocabulary",
           "at_once", "input", "output", "bits", "replicas", "dealt")  # fmt: skip
UNKNOWN = -1
Integers = NDArray[np.int64]


class Codes(Document):
    """Names of measured accelerators, frameworks and models; the code of a name is its index."""

    accelerators: tuple[str, ...]
    frameworks: tuple[str, ...]
    models: tuple[str, ...]
    """Signatures of the models (``signature``)."""


def code(names: tuple[str, ...], name: str) -> int:
    """Return the code of a name; ``UNKNOWN`` if it was not measured."""
    return names.index(name) if name in names else UNKNOWN


def signature(model: LanguageModel) -> str:
    """Return a digest of a model's shape; models of the same shape but different names have the
    same digest."""
    parts = (
        model.layers, model.hidden_size, model.heads, round(model.kv_heads * model.layers),
        model.feed_forward_size, model.vocabulary, model.experts, model.experts_per_token,
        model.moe_layers, model.latent_attention,
    )  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def ties(cases: Sequence[LlmCase], frameworks: Sequence[str], codes: Codes) -> Integers:
    """Return the codes of each case's ``TIES``, [cases, len(TIES)]."""
    rows = []
    for case, framework in zip(cases, frameworks, strict=True):
        load = case.load
        same = load.input_tokens == load.output_tokens
        rows.append((
            code(codes.accelerators, case.device.sheet.name if case.device.whole else ""),
            code(codes.frameworks, framework), code(codes.models, signature(case.model)),
            load.gpus, load.input_tokens if same else UNKNOWN, load.batch,
            int(load.nominal_bits), load.expert_parallel,
        ))  # fmt: skip
    return np.array(rows, dtype=np.int64).reshape(len(cases), len(TIES))


def numbers(cases: Sequence[LlmCase], *, with_queue: bool) -> Floats:
    """Return the numeric features of each case, [cases, len(NUMBERS)], mostly logarithms scaled so
    that a difference of 1 is large.

    ``with_queue``: whether the batch counts sequences that wait for others, too.
    """
    rows = []
    for case in cases:
        m, load = case.model, case.load
        full = memory(m, load).resident(case.device.memory_bytes)
        mean = full * (load.input_tokens + load.output_tokens) / load.context
        at_once = case.at_once
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


class ResidualKernel(Document):
    """One kernel of the covariance: cases with the same ties and near numbers miss alike."""

    name: str
    ties: tuple[int, ...]
    """Indices in ``TIES`` that must be equal."""
    numbers: tuple[int, ...]
    """Indices in ``NUMBERS`` that the distance is over."""
    variance: float = Field(gt=0)
    lengths: tuple[float, ...]
    """Length scale of each of ``numbers``."""


@dataclass(frozen=True, slots=True)
class Residual:
    """The correction of one head (learnt quantity): a Gaussian process on its measured rows."""

    kernels: tuple[ResidualKernel, ...]
    mean: float
    ties: Integers
    numbers: Floats
    weights: Floats
    """[rows] factors of the covariances with the measured rows."""

    def __call__(self, ties: Integers, numbers: Floats) -> Floats:
        """Return [cases]: the log seconds to add to the physical model's prediction of each
        case."""
        # Many devices have the same stand-in and room: equal cases are computed once.
        cases, place = np.unique(np.column_stack([ties, numbers]), axis=0, return_inverse=True)
        tied, numbered = cases[:, : len(TIES)].astype(np.int64), cases[:, len(TIES) :]
        near = covariance(self.kernels, tied, numbered, self.ties, self.numbers)
        # Products of matrices of other sizes differ in the last bits: a case's number must not.
        residuals = np.round(self.mean + near @ self.weights, _DIGITS)
        return np.asarray(residuals, dtype=np.float64)[place.reshape(-1)]


_DIGITS = 7
"""Decimal places of a correction, in log seconds."""
_BLOCK = 64
"""Number of cases whose covariances are computed together, so that they stay in the cache."""


def covariance(
    kernels: Sequence[ResidualKernel],
    ties: Integers,
    numbers: Floats,
    others: Integers,
    other: Floats,
) -> Floats:
    """Return the covariance between two sets of cases, [cases, others]."""
    total = np.zeros((len(numbers), len(other)))
    for start in range(0, len(numbers), _BLOCK):
        block = slice(start, start + _BLOCK)
        same = {c: equal(ties[block, c], others[:, c]) for k in kernels for c in k.ties}
        for kernel in kernels:
            columns, scale = list(kernel.numbers), np.array(kernel.lengths)
            tied = np.logical_and.reduce([same[c] for c in kernel.ties]) if kernel.ties else None
            # Most rows have other ties: the exponentials of those are not computed.
            near = slice(None) if tied is None else np.flatnonzero(tied.any(axis=0))
            a, b = numbers[block][:, columns] / scale, other[near][:, columns] / scale
            power = a @ b.T
            power -= 0.5 * (a * a).sum(axis=1)[:, None]
            power -= 0.5 * (b * b).sum(axis=1) - math.log(kernel.variance)
            each = np.exp(power, out=power)
            total[block, near] += each if tied is None else each * tied[:, near]
    return total


def equal(codes: Integers, others: Integers) -> NDArray[np.bool_]:
    """Return [codes, others]: whether two codes are equal and known."""
    return np.asarray((codes[:, None] == others) & (codes[:, None] >= 0))
