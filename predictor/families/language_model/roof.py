"""The least time that the hardware allows: no language model is served faster than its roof.

The roof is the longest of three times: of the matrix products at the peak rate, of the bytes of
weights and KV cache at the memory's bandwidth, and of tensor parallelism's messages over the link.
All of it counts what must happen, with nothing lost: measured times are 1.2 to 6 times as long.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.physics import (
    LINK,
    TPOT,
    TTFT,
    LlmCase,
    weight_bytes,
)

_BYTES_SENT = 2.0
"""Bytes that each layer sends per token and unit of hidden size: two all-reduces in 8 bits."""


def log_roofs(head: str, cases: Sequence[LlmCase]) -> Floats:
    """Return the log of the least seconds of a head's quantity for each case, [cases]."""
    least = {TTFT: least_first_token, TPOT: least_token}.get(head, least_seconds)
    return np.log(np.array([least(case) for case in cases], dtype=np.float64))


def least_seconds(case: LlmCase) -> float:
    """Return the least seconds in which all requests of a load are served."""
    load = case.load
    waves = max(load.batch / load.data_parallel / case.at_once, 1.0)
    steps = waves * load.output_tokens
    prompts = load.batch * load.computed_tokens
    answers = float(load.batch * load.output_tokens)
    return max(
        _products(case, prompts, answers), steps * _read(case), _sent(case, prompts + answers)
    )


def least_first_token(case: LlmCase) -> float:
    """Return the least seconds to the first token of one request."""
    prompt = case.load.computed_tokens
    return max(_products(case, prompt, 1.0), _sent(case, prompt))


def least_token(case: LlmCase) -> float:
    """Return the least seconds of one further token, of all sequences that are resident."""
    at_once = case.at_once * case.load.data_parallel
    return max(_products(case, 0.0, at_once), _read(case), _sent(case, at_once))


def _products(case: LlmCase, prompts: float, answers: float) -> float:
    """Return the seconds of the matrix products of so many tokens on all GPUs; a prompt needs the
    output matrix for its last token only."""
    m, load = case.model, case.load
    inner = m.active_parameters - m.embedding_parameters
    flops = 2 * ((prompts + answers) * inner + answers * m.embedding_parameters)
    return flops / (case.flops_per_s * load.gpus)


def _read(case: LlmCase) -> float:
    m, load = case.model, case.load
    at_once = case.at_once
    cache = at_once * m.cached_values(load.context) * load.kv_bits / 8
    shards = load.tensor_parallel * load.pipeline_parallel
    return (weight_bytes(m, load, at_once) + cache) / (case.device.bytes_per_s * shards)


def _sent(case: LlmCase, tokens: float) -> float:
    m, load = case.model, case.load
    n = load.tensor_parallel
    each = m.layers * m.hidden_size * _BYTES_SENT * (n - 1) / n
    link = case.device.sheet.link_bytes_per_s or LINK
    # The stages of a pipeline send at the same time, each for its own layers.
    return tokens / load.data_parallel * each / link / load.pipeline_parallel
