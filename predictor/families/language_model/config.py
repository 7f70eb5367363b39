"""Read the shape and parameter counts of a decoder language model from its Hugging Face
``config.json``.

Families of models use different key names (``keys``). A missing key takes the family's default in
Hugging Face transformers. Parameters are counted from
the matrices (norms, biases and routers beside them are below 0.1 % and are left out).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from berth.pilot.documents import Document, read_json
from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model.keys import (
    ENCODERS,
    EXPERT_WIDTH,
    EXPERTS,
    EXPERTS_PER_TOKEN,
    FFN,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    OTHERS,
    POSITIONS,
    TIED_BY_DEFAULT,
    UNGATED,
    VOCABULARY,
    WINDOW_PATTERN,
    Keys,
)

MOST_PARAMETERS = 1e14
_MOST_WIDTH = 10_000_000
_DEFAULT_BITS = {"float32": 32, "float": 32, "float16": 16, "bfloat16": 16, "float8_e4m3fn": 8}
_QUANTISED_BITS = {"fp8": 8, "mxfp4": 4, "nvfp4": 4, "awq": 4, "gptq": 4, "compressed-tensors": 8}


class RawConfig(Document):
    """Any JSON object; ``from_mapping`` reads and checks the keys that matter."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention layers of one type: their number, cached values per token, and window."""

    layers: int
    values_per_token: float
    """Cached values per token and layer: K and V together, or the latent vector of MLA."""
    window: int | None = None
    """Maximum number of tokens in the cache; None: unlimited."""


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """Shape and parameter counts of a decoder. Parameters are numbers of weights, not bytes."""

    name: str
    family: str
    layers: int
    hidden_size: int
    heads: int
    kv_heads: float
    """Number of KV heads, as a mean over layers."""
    head_dim: int
    feed_forward_size: int
    vocabulary: int
    positions: int
    attention: tuple[Attention, ...]
    state_values: float
    """Number of state values per sequence, independent of its length (linear attention)."""
    attention_parameters: float
    dense_parameters: float
    """Parameters of the feed-forward layers that every token passes, including shared experts."""
    expert_parameters: float
    """Parameters of all routed experts together."""
    experts: int
    experts_per_token: int
    moe_layers: int
    embedding_parameters: float
    tied: bool
    latent_attention: bool
    weight_bits: float
    """Bits per weight in the checkpoint."""

    @property
    def parameters(self) -> float:
        """Return the number of all parameters, including embeddings."""
        ends = self.embedding_parameters * (1 if self.tied else 2)
        return self.attention_parameters + self.dense_parameters + self.expert_parameters + ends

    @property
    def active_parameters(self) -> float:
        """Return the number of parameters that are multiplied for one token: without the input
        embedding, with the output matrix."""
        routed = self.expert_parameters * self.experts_per_token / max(self.experts, 1)
        return (
            self.attention_parameters + self.dense_parameters + routed + self.embedding_parameters
        )

    def cached_values(self, tokens: float) -> float:
        """Return the number of cached values of one sequence of ``tokens`` tokens, over all
        layers."""
        growing = sum(
            a.layers * a.values_per_token * min(tokens, a.window or math.inf)
            for a in self.attention
        )
        return growing + self.state_values

    @property
    def attending_width(self) -> float:
        """Return the sum of heads x head size over all attention layers; attention needs 4 FLOP per
        unit and pair of tokens."""
        growing = sum(a.layers for a in self.attention)
        return float(growing * self.heads * self.head_dim)


def read_config(path: Path) -> LanguageModel:
    """Return the language model that a ``config.json`` describes. Raises DocumentError for any
    other file."""
    raw = read_json(path, RawConfig).model_extra or {}
    name = raw.get("_name_or_path") or path.parent.name or path.stem
    return from_mapping(raw, source=path, name=str(name)[:200])


def is_config(raw: Mapping[str, Any]) -> bool:
    """Return whether a JSON object looks like a Hugging Face configuration and not like a Berth
    document."""
    return "schema" not in raw and ("model_type" in raw or "architectures" in raw)


def is_encoder(raw: Mapping[str, Any]) -> bool:
    """Return whether a configuration is of an encoder or encoder-decoder model, for which only one
    run of the graph can be predicted."""
    inner, family = _inner(raw)
    named = any(family == e or family.startswith(f"{e}-") for e in ENCODERS)
    return named or bool(inner.get("is_encoder_decoder"))


def _inner(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return the values of the text model in a configuration, and the model's family in lower
    case."""
    nested = raw.get("text_config") or raw.get("llm_config")
    inner: Mapping[str, Any] = {**raw, **nested} if isinstance(nested, dict) else raw
    return inner, str(inner.get("model_type") or raw.get("model_type") or "").lower()


def from_mapping(raw: Mapping[str, Any], *, source: Path | str, name: str) -> LanguageModel:
    """Return the language model that a parsed configuration describes. Raises DocumentError for
    anything that is not a decoder."""
    inner, family = _inner(raw)
    architectures = raw.get("architectures")
    if not family and not architectures:
        raise DocumentError(
            source,
            "has neither model_type nor architectures",
            hint="give the config.json of a Hugging Face model",
        )
    if is_encoder(raw):
        raise DocumentError(
            source,
            f"is a {family!r} model, not a decoder; only decoders serve tokens",
            hint="`--roofline`, or `--dim sequence=128`, asks for one run of its graph",
        )
    if family in OTHERS:
        raise DocumentError(source, f"is a {family!r} model, whose layers are not counted here")
    return _build(Keys(inner, source), family or "unknown", name, raw)


def _build(keys: Keys, family: str, name: str, raw: Mapping[str, Any]) -> LanguageModel:
    layers = keys.whole(LAYERS, most=1_000)
    hidden = keys.whole(HIDDEN, most=1_000_000)
    heads = keys.whole(HEADS, most=10_000)
    head_dim = keys.whole(("head_dim", "kv_channels", "attention_head_dim"), default=0)
    if not head_dim:
        if hidden % heads:
            raise DocumentError(
                keys.source, f"is {heads}, which does not divide hidden_size {hidden}",
                key=keys.found(HEADS),
            )  # fmt: skip
        head_dim = hidden // heads
    kv_heads = _kv_heads(keys, layers, heads)
    width = _feed_forward(keys, hidden)
    matrices = 2 if family in UNGATED else 3
    experts = keys.whole(EXPERTS, default=1)
    chosen = keys.whole(EXPERTS_PER_TOKEN, default=1)
    if chosen > experts:
        raise DocumentError(
            keys.source, f"is {chosen}, more than the {experts} experts",
            key=keys.found(EXPERTS_PER_TOKEN),
        )  # fmt: skip
    moe = _moe_layers(keys, layers) if experts > 1 else 0
    expert_width = keys.whole(EXPERT_WIDTH, default=width)
    shared = keys.whole(("shared_expert_intermediate_size",), default=0) or (
        keys.whole(("n_shared_experts", "num_shared_experts"), default=0) * expert_width
    )
    vocabulary = keys.whole(VOCABULARY, most=100_000_000)
    per_layer, attention, states = _attention(keys, layers, hidden, (heads, kv_heads, head_dim))
    model = LanguageModel(
        name=name,
        family=family,
        layers=layers,
        hidden_size=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        feed_forward_size=expert_width if moe else width,
        vocabulary=vocabulary,
        positions=keys.whole(POSITIONS, default=2048),
        attention=attention,
        state_values=states,
        attention_parameters=per_layer,
        dense_parameters=float(matrices * hidden * (width * (layers - moe) + shared * moe)),
        expert_parameters=float(matrices * hidden * expert_width * moe * experts) if moe else 0.0,
        experts=experts if moe else 1,
        experts_per_token=chosen if moe else 1,
        moe_layers=moe,
        embedding_parameters=float(vocabulary * hidden),
        tied=_tied(keys, family, raw),
        latent_attention=keys.whole(("kv_lora_rank",), default=0) > 0,
        weight_bits=_bits(keys, raw),
    )
    if model.parameters > MOST_PARAMETERS:
        raise DocumentError(keys.source, f"describes {model.parameters:.3g} parameters; too many")
    return model


def _kv_heads(keys: Keys, layers: int, heads: int) -> float:
    listed = keys.get(("num_key_value_heads_per_layer",))
    if listed is not None:
        good = isinstance(listed, list) and len(listed) == layers
        if not good or not all(type(v) is int and 0 < v <= heads for v in listed):
            raise DocumentError(
                keys.source, f"must be {layers} counts of at most {heads}",
                key="num_key_value_heads_per_layer",
            )  # fmt: skip
        return float(sum(listed) / layers)
    if keys.get(("multi_query",)) is True and not keys.get(("new_decoder_architecture",)):
        return 1.0
    kv_heads = keys.whole(KV_HEADS, default=heads)
    if kv_heads > heads:
        raise DocumentError(
            keys.source, f"is {kv_heads}, more than the {heads} heads", key=keys.found(KV_HEADS)
        )
    return float(kv_heads)


def _feed_forward(keys: Keys, hidden: int) -> int:
    listed = keys.get(FFN)
    if isinstance(listed, list) and listed and all(type(v) is int and v > 0 for v in listed):
        if max(listed) > _MOST_WIDTH:
            raise DocumentError(keys.source, f"holds more than {_MOST_WIDTH}", key=keys.found(FFN))
        return round(sum(listed) / len(listed))
    ratio = keys.whole(("expansion_ratio", "mlp_ratio"), default=4)
    return keys.whole(FFN, default=ratio * hidden, most=_MOST_WIDTH)


def _moe_layers(keys: Keys, layers: int) -> int:
    """Return the number of layers with routed experts (at least 1)."""
    dense = min(keys.whole(("first_k_dense_replace",), default=0), layers)
    step = max(keys.whole(("decoder_sparse_step", "interleave_moe_layer_step"), default=1), 1)
    only = keys.get(("mlp_only_layers",))
    return max((layers - dense) // step - (len(only) if isinstance(only, list) else 0), 1)


def _attention(
    keys: Keys, layers: int, hidden: int, shape: tuple[int, float, int]
) -> tuple[float, tuple[Attention, ...], float]:
    """Return the attention parameters of all layers, the attention layers by type, and the state
    values of linear attention."""
    heads, kv_heads, head_dim = shape
    latent = keys.whole(("kv_lora_rank",), default=0)
    if latent:
        rope = keys.whole(("qk_rope_head_dim",), default=64)
        nope = keys.whole(("qk_nope_head_dim",), default=head_dim)
        value = keys.whole(("v_head_dim",), default=head_dim)
        rank = keys.whole(("q_lora_rank",), default=0)
        out = heads * (nope + rope)
        query = rank * (hidden + out) if rank else hidden * out
        down = hidden * (latent + rope) + latent * heads * (nope + value)
        latent_each = query + down + heads * value * hidden
        return float(latent_each * layers), (Attention(layers, float(latent + rope)),), 0.0
    each = hidden * head_dim * (2 * heads + 2 * kv_heads)
    cached = 2 * kv_heads * head_dim
    kinds = keys.get(("layer_types",))
    window = keys.whole(("sliding_window", "attention_window"), default=0)
    if keys.get(("use_sliding_window",)) is False:
        window = 0
    if isinstance(kinds, list) and len(kinds) == layers and all(isinstance(k, str) for k in kinds):
        linear = sum(k in {"linear_attention", "mamba", "conv"} for k in kinds)
        near = sum(k in {"sliding_attention", "chunked_attention"} for k in kinds) if window else 0
    else:
        linear = 0
        pattern = keys.whole(
            ("sliding_window_pattern", "_sliding_window_pattern"),
            default=WINDOW_PATTERN.get(str(keys.get(("model_type",))), 0),
        )
        near = (layers - layers // pattern if pattern else layers) if window else 0
    states = linear_parameters = 0.0
    if linear:
        key_heads = keys.whole(("linear_num_key_heads",), default=heads)
        value_heads = keys.whole(("linear_num_value_heads",), default=heads)
        key_dim = keys.whole(("linear_key_head_dim",), default=head_dim)
        value_dim = keys.whole(("linear_value_head_dim",), default=head_dim)
        states = float(linear * value_heads * key_dim * value_dim)
        inner = 2 * key_heads * key_dim + 3 * value_heads * value_dim
        linear_parameters = float(linear * hidden * inner)
    full = layers - linear - near
    kinds_of_layers = [Attention(full, cached)] if full else []
    if near:
        kinds_of_layers.append(Attention(near, cached, window))
    return float(each * (full + near)) + linear_parameters, tuple(kinds_of_layers), states


def _tied(keys: Keys, family: str, raw: Mapping[str, Any]) -> bool:
    tied = keys.get(("tie_word_embeddings",))
    if tied is None:
        tied = raw.get("tie_word_embeddings")
    return tied if isinstance(tied, bool) else family in TIED_BY_DEFAULT


def _bits(keys: Keys, raw: Mapping[str, Any]) -> float:
    quantised = keys.get(("quantization_config",)) or raw.get("quantization_config")
    if isinstance(quantised, dict):
        bits = quantised.get("bits", quantised.get("weight_bits"))
        if type(bits) is int and bits in {2, 3, 4, 8}:
            return float(bits)
        if quantised.get("load_in_4bit") is True:
            return 4.0
        return float(_QUANTISED_BITS.get(str(quantised.get("quant_method")).lower(), 8))
    return float(_DEFAULT_BITS.get(str(keys.get(("torch_dtype", "dtype"))), 16))
