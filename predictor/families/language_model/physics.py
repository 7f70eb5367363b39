"""Where the time of serving goes: physical shares, each scaled by what its framework achieves.

``log t = log sum_k exp(q_k + e_k)``: ``q_k`` is the log of a time that the hardware would need at
its peak (reading weights, reading the cache, multiplying) or of a count (layers, steps, messages)
times a nominal second; ``e_k`` says how far a framework is from it, learnt as a shared value plus
the framework's own, and little of the accelerator's. Three heads: ``offline`` (a batch of equal
requests from start to end), ``ttft`` (first token under load), ``tpot`` (each further token).

An accelerator that was never measured takes the effects of its nearest measured sibling.
Frameworks reach more of the peaks of the vendor that they were written for than shared effects
say: with the nearest CUDA sibling's effects the median error of offline time on an A100 and an
H100 that were left out falls from 61 and 139 % to 19 and 17 %
(``python -m lab unseen-accelerators``). Vendors of which only dissimilar accelerators were
measured keep the shared effects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.config import LanguageModel
from berth.predictor.families.language_model.load import Load, memory
from berth.predictor.hardware.catalogue import devices
from berth.predictor.hardware.unit import Unit, unit_named

OFFLINE, TTFT, TPOT = "offline", "ttft", "tpot"
HEADS = (OFFLINE, TTFT, TPOT)
TERMS = {
    OFFLINE: ("weights", "weights_one_gpu", "cache", "cache_all_heads", "decode", "prefill",
              "experts_all", "layers", "expert_layers", "steps", "sequences", "prompt_squared",
              "messages", "bytes_sent", "vocabulary", "once"),
    TTFT: ("prefill", "prefill_queue", "attention", "weights", "layers", "expert_layers",
           "messages", "bytes_sent", "queue", "waiting", "prompt", "once"),
    TPOT: ("weights", "cache", "decode", "prefill_between", "layers", "expert_layers", "messages",
           "bytes_sent", "sequences", "vocabulary", "once"),
}  # fmt: skip
_NOTHING = 1e-30
_LINK = 5e10
"""Bytes a second where the link is not published."""


@dataclass(frozen=True, slots=True)
class Case:
    """A model under a load on a device."""

    model: LanguageModel
    load: Load
    device: Unit


class Effects(Document):
    """How far each share is from the hardware's peak, in log: one value a term, added up."""

    head: str
    terms: tuple[str, ...]
    shared: tuple[float, ...]
    groups: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """Values by framework, by accelerator, and by both (``group_names``)."""

    def of(self, accelerator: str, framework: str) -> Floats:
        """Return ``e_k``; what nobody measured adds nothing to the shared part."""
        effects = np.array(self.shared)
        for name in group_names(accelerator, framework):
            if name in self.groups:
                effects = effects + np.array(self.groups[name])
        return effects


def group_names(accelerator: str, framework: str) -> tuple[str, str, str]:
    """Return the keys of ``Effects.groups``: a framework's, an accelerator's, their pair's."""
    return framework, accelerator, f"{accelerator} | {framework}"


def log_terms(head: str, cases: Sequence[Case]) -> Floats:
    """Return ``q_k`` in log seconds: cases x terms of the head."""
    ask = {OFFLINE: _offline, TTFT: _ttft, TPOT: _tpot}[head]
    rows = [[ask_of[name] for name in TERMS[head]] for ask_of in map(ask, cases)]
    return np.log(np.maximum(np.array(rows, dtype=np.float64), _NOTHING))


def combine(log_terms: Floats, effects: Floats) -> tuple[Floats, Floats]:
    """Return the log of the summed time, and each term's share of it."""
    parts = log_terms + effects
    top = parts.max(axis=1, keepdims=True)
    grown = np.exp(parts - top)
    total = grown.sum(axis=1, keepdims=True)
    return (top + np.log(total))[:, 0], grown / total


@dataclass(frozen=True, slots=True)
class _Parts:
    """What all heads are made from; seconds at the hardware's peak for one replica."""

    batch: float
    """Sequences of one replica at a time."""
    waves: float
    """Number of such batches that follow each other; above 1 where the cache is too small."""
    read_weights: float
    """Once, with as many experts as the batch touches, on all GPUs of a replica."""
    per_token: float
    """Multiplying one token's matrices."""
    cached: float
    """Reading one token's K and V."""
    rate: float
    compute: float
    link: float
    gpus: float


def _parts(case: Case) -> _Parts:
    m, load, device = case.model, case.load, case.device
    each = load.batch / load.data_parallel
    # What a real server keeps back is about what is not counted: peak sizes, no slack.
    fits = memory(m, load).resident(device.memory_bytes)
    # A sequence's cache grows while it is served: on average it is not yet full.
    fits *= (load.input_tokens + load.output_tokens) / load.context
    at_once = max(1.0, min(each, fits))
    shards = load.tensor_parallel * load.pipeline_parallel
    chosen = m.experts_per_token / m.experts
    everyone = at_once * load.data_parallel
    touched = 1 - (1 - chosen) ** max(everyone, 1.0)
    expert_shards = max(shards, load.expert_parallel * load.pipeline_parallel)
    bits = load.weight_bits / 8
    read = (m.attention_parameters + m.dense_parameters) * bits / shards
    read += m.expert_parameters * touched * bits / expert_shards
    read += m.embedding_parameters * max(bits, 2.0) / load.tensor_parallel
    rate = device.bytes_per_s
    compute = device.flops_per_s(load.weight_bits)
    return _Parts(
        batch=at_once,
        waves=each / at_once,
        read_weights=read / rate,
        per_token=2 * m.active_parameters / (compute * shards),
        cached=m.cached_values(load.context) / max(load.context, 1.0) * load.kv_bits / 8
        / (rate * (1.0 if m.latent_attention else shards)),
        rate=rate,
        compute=compute,
        link=device.sheet.link_bytes_per_s or _LINK,
        gpus=float(load.gpus),
    )  # fmt: skip


def _sent(case: Case, tokens: float, link: float) -> float:
    """Return the seconds for the all-reduces of so many tokens through all layers."""
    n = case.load.gpus
    return tokens * case.model.layers * case.model.hidden_size * 4 * (n - 1) / n / link


def _offline(case: Case) -> Mapping[str, float]:
    m, load, p = case.model, case.load, _parts(case)
    steps = p.waves * load.output_tokens
    tokens = steps * p.batch
    shards = load.tensor_parallel * load.pipeline_parallel
    heads_all = m.heads * m.head_dim * 2 * m.layers * load.kv_bits / 8 / (p.rate * shards)
    prompt = load.input_tokens * p.batch * p.waves
    many = 1.0 if p.gpus > 1 else 0.0
    routed = 1.0 if m.experts > 1 else 0.0
    every = 2 * m.parameters / (p.compute * shards)
    return {
        "weights": steps * p.read_weights,
        "weights_one_gpu": many * steps * p.read_weights * shards,
        "cache": tokens * p.cached * load.context,
        "cache_all_heads": tokens * heads_all * load.context * (m.kv_heads < m.heads),
        "decode": tokens * p.per_token,
        "prefill": prompt * p.per_token,
        "experts_all": tokens * every * routed,
        "layers": steps * m.layers * 1e-4,
        "expert_layers": steps * m.moe_layers * 1e-4,
        "steps": steps * 1e-2,
        "sequences": tokens * 1e-4,
        "prompt_squared": prompt * load.input_tokens * 1e-7,
        "messages": many * steps * m.layers * math.log2(max(p.gpus, 2)) * 1e-5,
        "bytes_sent": _sent(case, tokens, p.link),
        "vocabulary": tokens * m.vocabulary * 1e-9,
        "once": 0.05,
    }


def _ttft(case: Case) -> Mapping[str, float]:
    m, load, p = case.model, case.load, _parts(case)
    prompt = float(load.input_tokens)
    pairs = 4 * m.attending_width * prompt * prompt / 2
    many = 1.0 if p.gpus > 1 else 0.0
    return {
        "prefill": prompt * p.per_token,
        "prefill_queue": prompt * p.per_token * p.batch,
        "attention": pairs / (p.compute * load.tensor_parallel * load.pipeline_parallel),
        "weights": p.read_weights,
        "layers": m.layers * 1e-4,
        "expert_layers": m.moe_layers * 1e-4,
        "messages": many * m.layers * math.log2(max(p.gpus, 2)) * 1e-5,
        "bytes_sent": _sent(case, prompt, p.link),
        "queue": p.batch * p.gpus * 1e-4,
        "waiting": (p.waves - 1) * load.output_tokens * p.read_weights,
        "prompt": prompt * 1e-5,
        "once": 0.02,
    }


def _tpot(case: Case) -> Mapping[str, float]:
    m, load, p = case.model, case.load, _parts(case)
    many = 1.0 if p.gpus > 1 else 0.0
    ratio = load.input_tokens / load.output_tokens
    return {
        "weights": p.read_weights,
        "cache": p.batch * p.cached * load.context,
        "decode": p.batch * p.per_token,
        "prefill_between": ratio * p.batch * p.per_token,
        "layers": m.layers * 1e-4,
        "expert_layers": m.moe_layers * 1e-4,
        "messages": many * m.layers * math.log2(max(p.gpus, 2)) * 1e-5,
        "bytes_sent": _sent(case, p.batch, p.link),
        "sequences": p.batch * 1e-5,
        "vocabulary": p.batch * m.vocabulary * 1e-9,
        "once": 1e-3,
    }


_CUDA = "cuda"
LOG_WIDTHS = {OFFLINE: 0.8}
"""Half width of the 90 % interval with a sibling's effects by head, of the widest accelerator left
out (two: too few for a calibrated interval, so the basis stays ``prior``). Other heads, where
siblings help little, keep their bundle's width."""


def stands_for(device: Unit, measured: Sequence[str]) -> str:
    """Return the name whose effects the device has: its own (a slice: its GPU's), a sibling's, or
    none."""
    own = device.sheet.name
    return own if own in measured else sibling(device, measured) or ""


def sibling(device: Unit, measured: Sequence[str]) -> str | None:
    """Return the nearest measured accelerator that runs CUDA, by bandwidth and 16-bit peak."""
    return _nearest(device.sheet.name, tuple(measured))


@cache
def _nearest(name: str, measured: tuple[str, ...]) -> str | None:
    known = devices()
    near = [other for other in measured if other in known and known[other].software == _CUDA]
    if name not in known or known[name].software != _CUDA:
        return None
    own = unit_named(name)
    return min(near, key=lambda other: (_apart(own, unit_named(other)), other), default=None)


def _apart(unit: Unit, other: Unit) -> float:
    return abs(math.log(unit.bytes_per_s / other.bytes_per_s)) + abs(
        math.log(unit.flops_per_s(16) / other.flops_per_s(16))
    )
