"""Count the GPU memory of fine-tuning a decoder: weights, gradients, optimiser and activations.

What a step holds depends on the trainer's settings, which a configuration does not say. The answer
is therefore a range: its lower end is the leanest usual set-up (gradients freed as they are
applied, 8-bit or paged optimiser, logits in chunks), its upper end the default one (fp32 master
weights and AdamW, fp32 logits). Memory moved to the host is not counted. Published figures inside
the range: ``tests/predictor/llm/test_llm_fine_tuning.py``.
"""

from __future__ import annotations

from enum import StrEnum

from berth.pilot.errors import UsageError
from berth.predictor.core.prediction import Interval
from berth.predictor.families.language_model.config import LanguageModel


class Method(StrEnum):
    """The way of fine-tuning, which says which parameters are trained."""

    FULL = "full"
    """All weights."""
    LORA = "lora"
    """Low-rank adapters beside 16-bit weights."""
    QLORA = "qlora"
    """Low-rank adapters beside 4-bit weights."""


_NF4_BITS = 4.127
"""Bits of a weight in 4-bit NormalFloat with doubly quantised scales (Dettmers et al. 2023)."""
_TRAINED_BYTES = (2.0, 8.0, 18.0)
"""Bytes of each trained weight: bf16 alone; bf16 with gradient and two moments; fp32 master weight,
gradient and moments beside bf16 copies."""
_RANKS, _ADAPTER_BYTES = (8, 8, 64), (8.0, 18.0, 18.0)
_LAYER_BYTES = (28.0, 34.0, 34.0)
"""Bytes that one layer keeps of each token and unit of hidden size for the backward pass, with
fused attention (Korthikanti et al. 2022, equation 2); the least with compiled kernels."""
_LOGIT_BYTES = (0.0, 6.0, 12.0)
"""Bytes of each logit: in chunks; 16 bits and fp32; also its gradient and softmax."""


def fine_tuning_memory(
    model: LanguageModel,
    method: Method,
    *,
    batch: int,
    tokens: int,
    gpus: int = 1,
    checkpointing: bool = True,
) -> Interval:
    """Return the peak bytes on each of ``gpus`` GPUs that share weights, gradients and optimiser
    (fully sharded), for ``batch`` sequences of ``tokens`` tokens on each.

    ``checkpointing``: whether activations inside a layer are computed again for the backward pass.
    Raises UsageError for numbers below 1.
    """
    if min(batch, tokens, gpus) < 1:
        raise UsageError("batch, tokens and GPUs of fine-tuning must be at least 1")
    inner = model.parameters - model.end_parameters
    bits = _NF4_BITS if method is Method.QLORA else 16.0
    if method is Method.FULL:
        weights = tuple(model.parameters * each for each in _TRAINED_BYTES)
    else:
        frozen = (inner * bits + model.end_parameters * 16.0) / 8
        weights = tuple(
            frozen + _adapter_parameters(model, rank) * each
            for rank, each in zip(_RANKS, _ADAPTER_BYTES, strict=True)
        )
    hidden = float(batch * tokens * model.hidden_size)
    ends = 2.0 * hidden * model.layers
    layers = [each * hidden for each in _LAYER_BYTES]
    kept = [ends, ends + layers[1], ends + layers[2]]
    if not checkpointing:
        kept = [each * model.layers for each in layers]
    # One layer's weights are gathered from all GPUs to be used.
    gathered = inner * bits / 8 / model.layers * (gpus > 1)
    logits = [each * batch * tokens * model.vocabulary for each in _LOGIT_BYTES]
    return Interval(*(
        share / gpus + gathered + activations + each
        for share, activations, each in zip(weights, kept, logits, strict=True)
    ))  # fmt: skip


def _adapter_parameters(model: LanguageModel, rank: int) -> float:
    attention = 8.0 * model.hidden_size
    feed_forward = 3.0 * (model.hidden_size + model.feed_forward_size)
    return rank * model.layers * (attention + feed_forward * max(1, model.experts_per_token))
