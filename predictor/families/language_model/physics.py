"""Model the time of serving as a sum of physical terms, each scaled by a factor of the framework.

``log t = log sum_k exp(q_k + e_k)``, summed over the terms ``k`` (``TERMS``):

``t``: predicted seconds.
``q_k``: log seconds that the hardware needs at its peak rates (to read weights, read the cache,
multiply), or log of a count (layers, steps, messages) times nominal seconds.
``e_k``: fitted log factor between the framework's time and ``q_k``, the *effect*: a shared value
plus values of the framework, the accelerator and their pair.

Each of four heads (learnt quantities) has its own terms: ``offline`` (a batch of equal requests
from start to end), ``saturated`` (more requests than are resident at once, from start to end),
``ttft`` (time to first token under load), ``tpot`` (time per further token).

Requests that are not resident at once (``LlmLoad.at_once``) run in waves. No prediction is faster
than the hardware's roof (``roof``).

An accelerator that was never measured uses the effects of its nearest measured relative of the same
software (CUDA or HIP), because the frameworks reach more of the peak rates there than the shared
effects predict (``python -m lab language-models``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.config import LanguageModel
from berth.predictor.families.language_model.load import LlmLoad
from berth.predictor.families.language_model.weights import product_bits
from berth.predictor.hardware.catalogue import devices
from berth.predictor.hardware.unit import Unit, unit_named

OFFLINE, SATURATED, TTFT, TPOT = "offline", "saturated", "ttft", "tpot"
HEADS = (OFFLINE, SATURATED, TTFT, TPOT)
MEAN = " (mean)"
"""Ending of a framework's name in the data of ``ttft`` where a mean was published, in which the
burst at the start of a measurement is; without it, the median of a steady load."""
TERMS = {
    OFFLINE: ("weights", "weights_one_gpu", "cache", "cache_all_heads", "decode", "prefill",
              "experts_all", "layers", "expert_layers", "steps", "sequences", "prompt_squared",
              "messages", "bytes_sent", "vocabulary", "once"),
    SATURATED: ("weights", "cache", "decode", "prefill", "attention", "activations", "routing",
                "layers", "expert_layers", "sequences", "messages", "bytes_sent", "once"),
    TTFT: ("prefill", "prefill_queue", "attention", "weights", "layers", "expert_layers",
           "messages", "bytes_sent", "queue", "prompt", "once"),
    TPOT: ("weights", "cache", "decode", "attention", "activations", "routing", "prefill_between",
           "layers", "expert_layers", "messages", "bytes_sent", "sequences", "vocabulary", "once"),
}  # fmt: skip
_NOTHING = 1e-30
LINK = 5e10
"""Link bandwidth in bytes per second, assumed where the data sheet has none."""


@dataclass(frozen=True)
class LlmCase:
    """One case to predict: a language model under a load on a device."""

    model: LanguageModel
    load: LlmLoad
    device: Unit
    framework: str = ""
    """Name of the server, which chooses the bits of the products; empty: any."""

    @property
    def flops_per_s(self) -> float:
        """Return the peak rate of the matrix products that the server does on the device."""
        bits = product_bits(
            self.load.weight_format,
            self.load.compute_bits or self.load.nominal_bits,
            self.device.sheet.isa or "",
            self.framework,
        )
        return self.device.flops_per_s(bits)

    @cached_property
    def at_once(self) -> float:
        """Return the mean number of sequences that one replica serves at the same time."""
        return self.load.at_once(self.model, self.device.memory_bytes)


class TermEffects(Document):
    """Effects of one head: log factors on its terms, as sums of a shared value and values by
    group."""

    head: str
    terms: tuple[str, ...]
    shared: tuple[float, ...]
    groups: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """Values to add for a framework, an accelerator or their pair, by key (``group_names``)."""

    def of(self, accelerator: str, framework: str) -> Floats:
        """Return the log factor ``e_k`` of each term, [terms]; an unmeasured accelerator or
        framework adds nothing to the shared value."""
        effects = np.array(self.shared)
        for name in group_names(accelerator, framework):
            if name in self.groups:
                effects = effects + np.array(self.groups[name])
        return effects


def group_names(accelerator: str, framework: str) -> tuple[str, str, str]:
    """Return the three keys of ``TermEffects.groups``: for the framework, the accelerator and their
    pair."""
    return framework, accelerator, f"{accelerator} | {framework}"


def log_terms(head: str, cases: Sequence[LlmCase]) -> Floats:
    """Return the terms ``q_k`` of a head in log seconds, [cases, terms]."""
    compute = {OFFLINE: _whole, SATURATED: _whole, TTFT: _ttft, TPOT: _tpot}[head]
    rows = [[terms[name] for name in TERMS[head]] for terms in map(compute, cases)]
    return np.log(np.maximum(np.array(rows, dtype=np.float64), _NOTHING))


def combine(log_terms: Floats, effects: Floats) -> tuple[Floats, Floats]:
    """Return the log of the total seconds, [cases], and each term's share of the total, [cases,
    terms]."""
    parts = log_terms + effects
    top = parts.max(axis=1, keepdims=True)
    grown = np.exp(parts - top)
    total = grown.sum(axis=1, keepdims=True)
    return (top + np.log(total))[:, 0], grown / total


@dataclass(frozen=True, slots=True)
class _Parts:
    """Quantities that the terms of all heads are computed from; times in seconds at peak rates for
    one replica."""

    batch: float
    """Number of sequences that one replica serves at the same time."""
    waves: float
    """Number of batches that run one after another; above 1 where not all sequences are resident at
    once."""
    read_weights: float
    """Seconds to read the weights once, with the experts that the batch uses, on all GPUs of a
    replica."""
    per_token: float
    """Seconds of the matrix products for one token."""
    attention: float
    """Seconds of the products of one new token with one cached token, in 16 bits."""
    activations: float
    """Seconds to write and read one token's hidden state ten times in each layer, which all
    tensor-parallel GPUs do."""
    routing: float
    """Seconds to copy one token to its routed experts and back three times, in all layers."""
    cached: float
    """Seconds to read the cached K and V of one token, shared by all GPUs of a replica."""
    copies: float
    """Number of a replica's GPUs that hold and read the same K and V."""
    rate: float
    compute: float
    link: float
    gpus: float


def _parts(case: LlmCase) -> _Parts:
    m, load, device = case.model, case.load, case.device
    at_once = case.at_once
    tensor, pipeline = load.tensor_parallel, load.pipeline_parallel
    shards = tensor * pipeline
    rate = device.bytes_per_s
    compute = case.flops_per_s
    return _Parts(
        batch=at_once,
        waves=max(load.batch / load.data_parallel / at_once, 1.0),
        # Each stage of a pipeline reads its weights anew for every part of the batch.
        read_weights=weight_bytes(m, load, at_once) / (rate * tensor),
        per_token=2 * m.active_parameters / (compute * shards),
        attention=attention_flops(m) / (device.flops_per_s(16) * shards),
        activations=20.0 * m.layers * m.hidden_size / (rate * pipeline),
        routing=12.0 * m.moe_layers * m.experts_per_token * m.hidden_size / (rate * pipeline),
        cached=m.cached_values(load.context) / max(load.context, 1.0) * load.kv_bits / 8
        / (rate * (1.0 if m.latent_attention else shards)),
        copies=1.0 if m.latent_attention else tensor / min(m.kv_heads, tensor),
        rate=rate,
        compute=compute,
        link=device.sheet.link_bytes_per_s or LINK,
        gpus=float(load.gpus),
    )  # fmt: skip


def weight_bytes(m: LanguageModel, load: LlmLoad, at_once: float) -> float:
    """Return the bytes of weights that one replica reads in one step of ``at_once`` sequences:
    what all tokens pass, and the routed experts that some token of the step uses."""
    chosen = m.experts_per_token / m.experts
    touched = 1 - (1 - chosen) ** max(at_once * load.data_parallel, 1.0)
    # Groups of experts are spread over the replicas, each of which reads a part.
    spread = max(load.expert_parallel / load.tensor_parallel, 1.0)
    always = m.attention_parameters + m.dense_parameters
    quantised = (always + m.expert_parameters * touched / spread) * load.weight_bits
    return float(quantised + m.embedding_parameters * max(load.weight_bits, m.end_bits)) / 8


def attention_flops(m: LanguageModel) -> float:
    """Return the flops of attention between one new token and one cached token, in all layers.

    Latent attention (MLA) multiplies each head with the whole latent vector while it decodes.
    """
    if m.latent_attention:
        return 4.0 * m.heads * sum(a.layers * a.values_per_token for a in m.attention)
    return 4.0 * m.attending_width


def _sent(case: LlmCase, tokens: float, link: float) -> float:
    """Return the seconds of the all-reduces of ``tokens`` tokens in all layers, one after another,
    at ``link`` bytes per second."""
    n = case.load.gpus / case.load.pipeline_parallel
    return tokens * case.model.layers * case.model.hidden_size * 4 * (n - 1) / n / link


def _steps(case: LlmCase, p: _Parts) -> Mapping[str, float]:
    """Return the seconds of the layers and messages of one step, for any number of sequences."""
    m = case.model
    many = math.log2(p.gpus / case.load.pipeline_parallel)
    return {
        "layers": m.layers * 1e-4,
        "expert_layers": m.moe_layers * 1e-4,
        "messages": many * m.layers * 1e-5,
    }


def _whole(case: LlmCase) -> Mapping[str, float]:
    """Return the terms of all requests from start to end (``offline``, ``saturated``)."""
    m, load, p = case.model, case.load, _parts(case)
    steps = p.waves * load.output_tokens
    tokens = steps * p.batch
    prompt = load.computed_tokens * p.batch * p.waves
    shards = load.tensor_parallel * load.pipeline_parallel
    heads_all = m.heads * m.head_dim * 2 * m.layers * load.kv_bits / 8 / (p.rate * shards)
    return {name: steps * seconds for name, seconds in _steps(case, p).items()} | {
        "weights": steps * p.read_weights,
        "weights_one_gpu": steps * p.read_weights * load.tensor_parallel * (p.gpus > 1),
        "cache": tokens * p.cached * p.copies * load.context,
        "cache_all_heads": tokens * heads_all * load.context * (m.kv_heads < m.heads),
        "decode": tokens * p.per_token,
        "prefill": prompt * p.per_token,
        "experts_all": tokens * 2 * m.parameters / (p.compute * shards) * (m.experts > 1),
        "attention": p.attention * (tokens * load.context + prompt * load.input_tokens / 2),
        "activations": (tokens + prompt) * p.activations,
        "routing": (tokens + prompt) * p.routing,
        "steps": steps * 1e-2,
        "sequences": tokens * 1e-4,
        "prompt_squared": prompt * load.input_tokens * 1e-7,
        # The stages of a pipeline send at the same time, each for its own layers.
        "bytes_sent": _sent(case, tokens + prompt, p.link) / load.pipeline_parallel,
        "vocabulary": tokens * m.vocabulary * 1e-9,
        "once": 0.05,
    }


def _ttft(case: LlmCase) -> Mapping[str, float]:
    m, load, p = case.model, case.load, _parts(case)
    prompt = load.computed_tokens
    pairs = 4 * m.attending_width * prompt * (load.input_tokens - prompt / 2)
    return {
        **_steps(case, p),
        "prefill": prompt * p.per_token,
        "prefill_queue": prompt * p.per_token * p.batch,
        "attention": pairs / (p.compute * load.tensor_parallel * load.pipeline_parallel),
        "weights": p.read_weights,
        "bytes_sent": _sent(case, prompt, p.link),
        "queue": p.batch * p.gpus * 1e-4,
        "prompt": prompt * 1e-5,
        "once": 0.02,
    }


def _tpot(case: LlmCase) -> Mapping[str, float]:
    m, load, p = case.model, case.load, _parts(case)
    # While one token is decoded, this many of other requests' prompts are processed.
    ratio = load.computed_tokens / load.output_tokens
    return {
        **_steps(case, p),
        "weights": p.read_weights,
        "cache": p.batch * p.cached * p.copies * load.context,
        "decode": p.batch * p.per_token,
        "attention": p.batch * p.attention * load.context,
        "activations": p.batch * (1 + ratio) * p.activations,
        "routing": p.batch * (1 + ratio) * p.routing,
        "prefill_between": ratio * p.batch * p.per_token,
        "bytes_sent": _sent(case, p.batch * (1 + ratio), p.link),
        "sequences": p.batch * 1e-5,
        "vocabulary": p.batch * m.vocabulary * 1e-9,
        "once": 1e-3,
    }


@cache
def nearest(name: str, measured: tuple[str, ...]) -> str | None:
    """Return the measured accelerator of the same software (CUDA, HIP) with the most similar
    bandwidth and 16-bit peak rate; None: no such accelerator was measured."""
    known = devices()
    if name not in known:
        return None
    own, software = unit_named(name), known[name].software
    near = [other for other in measured if other in known and known[other].software == software]
    return min(near, key=lambda other: (_apart(own, unit_named(other)), other), default=None)


def _apart(unit: Unit, other: Unit) -> float:
    return abs(math.log(unit.bytes_per_s / other.bytes_per_s)) + abs(
        math.log(unit.flops_per_s(16) / other.flops_per_s(16))
    )
