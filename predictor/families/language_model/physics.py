"""Model the time of serving as a sum of physical terms, each scaled by a factor of the framework.

``log t = log sum_k exp(q_k + e_k)``, summed over the terms ``k`` (``TERMS``):

``t``: predicted seconds.
``q_k``: log seconds that the hardware needs at its peak rates (to read weights, read the cache,
multiply), or log of a count (layers, steps, messages) times nominal seconds.
``e_k``: fitted log factor between the framework's time and ``q_k``, the *effect*: a shared value
plus values of the framework, the accelerator and their pair.

Each of three heads (learnt quantities) has its own terms: ``offline`` (a batch of equal requests
from start to end), ``ttft`` (time to first token under load), ``tpot`` (time per further token).

An accelerator that was never measured uses the effects of its nearest measured CUDA sibling,
because the frameworks reach more of the peak rates on CUDA than the shared effects predict: with
the sibling's effects, the median error of the offline time on a held-out A100 and H100 falls from
61 and 139 % to 19 and 17 % (``python -m lab unseen-accelerators``). Other vendors' accelerators
that were not measured use the shared effects.
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
"""Link bandwidth in bytes per second, assumed where the data sheet has none."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case to predict: a language model under a load on a device."""

    model: LanguageModel
    load: Load
    device: Unit


class Effects(Document):
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
    """Return the three keys of ``Effects.groups``: for the framework, the accelerator and their
    pair."""
    return framework, accelerator, f"{accelerator} | {framework}"


def log_terms(head: str, cases: Sequence[Case]) -> Floats:
    """Return the terms ``q_k`` of a head in log seconds, [cases, terms]."""
    ask = {OFFLINE: _offline, TTFT: _ttft, TPOT: _tpot}[head]
    rows = [[ask_of[name] for name in TERMS[head]] for ask_of in map(ask, cases)]
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
    """Number of batches that run one after another; above 1 if the cache is too small for all
    sequences."""
    read_weights: float
    """Seconds to read the weights once, with the experts that the batch uses, on all GPUs of a
    replica."""
    per_token: float
    """Seconds of the matrix products for one token."""
    cached: float
    """Seconds to read the cached K and V of one token."""
    rate: float
    compute: float
    link: float
    gpus: float


def _parts(case: Case) -> _Parts:
    m, load, device = case.model, case.load, case.device
    each = load.batch / load.data_parallel
    # The memory that a real server reserves about equals the uncounted memory: add no slack.
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
    compute = device.flops_per_s(load.compute_bits or load.weight_bits)
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
    """Return the seconds of the all-reduces of ``tokens`` tokens in all layers, at ``link`` bytes
    per second."""
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
"""Half width in log time of the 90 % interval by head where a sibling's effects are used: the
larger of two held-out accelerators (too few to calibrate, so the basis stays ``prior``). Heads not
listed, where a sibling helps little, use the width in the bundle."""


def stands_for(device: Unit, measured: Sequence[str]) -> str:
    """Return the name of the accelerator whose effects apply to a device: its own (slice: its
    GPU's) if measured, else its nearest sibling's; empty: no sibling."""
    own = device.sheet.name
    return own if own in measured else sibling(device, measured) or ""


def sibling(device: Unit, measured: Sequence[str]) -> str | None:
    """Return the measured CUDA accelerator with the most similar bandwidth and 16-bit peak rate;
    None: the device does not run CUDA or no such accelerator was measured."""
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
