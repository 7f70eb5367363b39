"""The child process that counts a configuration by transformers: JSON in, JSON out.

It drops its rights before it imports torch, builds the class that transformers itself has for the
``model_type`` (``auto_map`` is removed), and runs one forward pass on the meta device. The lab
holds the table of families to the same functions.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import resource
import sys
from collections.abc import Iterator, Mapping
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

TOKENS = 37
"""Length of the forward pass; no size of a configuration equals this prime."""
LONGER = TOKENS + 256
"""Length of a second pass, which shows what grows by a value for several tokens."""
SECONDS = 80
"""Seconds of processor time that the process may use: a busy machine changes no answer."""
_NOBODY = 65534
_SIZES = {
    "hidden": ("hidden_size",), "heads": ("num_attention_heads",),
    "feed_forward": ("intermediate_size",), "vocabulary": ("vocab_size",),
    "expert_width": ("moe_intermediate_size", "intermediate_size"),
    "positions": ("max_position_embeddings",), "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "experts": ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts",
                "ffn_config.moe_num_experts"),
    "chosen": ("num_experts_per_tok", "moe_topk", "moe_top_k", "moe_k", "num_experts_per_token",
               "top_k_experts", "num_selected_experts", "ffn_config.moe_top_k"),
}  # fmt: skip
PARTS = (
    ("tower", re.compile(r"vision|visual|audio|image|speech|projector|connector|patch|aligner"
                         r"|codec|depth_decoder|mm_|multi_modal|perceiver|resampler")),
    ("head", re.compile(r"(^|\.)(lm_head|embed_out|output_projection|output_layer)\.weight$")),
    ("lookup", re.compile(r"embed_tokens_per_layer|per_layer_embed|embed_positions|wpe\.|"
                          r"position_embed|ngram_embed|token_type|positions_embed")),
    ("embedding", re.compile(r"(embed_tokens|wte|word_embeddings|embed_in|embeddings?"
                             r"|tok_embeddings|tokens_embed|word_embedding|embed|input_embedding"
                             r"|w)\.weight$")),
    ("expert", re.compile(r"(?<!shared_)(?<!shared)experts?\.(?!.*shared)(?!.*router)")),
    ("attention", re.compile(r"attn|attention|mixer|mamba|linear_attn|conv|rnn|ssm|delta")),
)  # fmt: skip
"""Parts of a model by the names of their weights, the first that matches."""


def part_of(name: str) -> str:
    """Return the part of a model that a weight belongs to, by its name (indices as digits or
    ``{}``)."""
    in_layer = re.search(r"\.(\d+|\{\})\.", name) is not None
    for part, pattern in PARTS:
        if part in {"head", "embedding", "lookup"} and in_layer:
            continue
        if pattern.search(name):
            return part
    return "dense"


def main() -> None:
    """Read a configuration from standard input, and write its count to standard output."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))  # SIGXCPU, then SIGKILL
    for limit, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 2**20)):
        resource.setrlimit(limit, (value, value))
    raw = json.loads(sys.stdin.read())
    if os.getuid() == 0:
        drop_rights()
    try:
        reply = count(raw)
    except Exception as error:
        reply = {"problem": f"{type(error).__name__}: {str(error)[:150]}"}
    sys.stdout.write(json.dumps(reply))


def drop_rights() -> None:
    """Become nobody, where nobody can read this interpreter's modules, which are imported later."""
    os.seteuid(_NOBODY)
    try:
        with open(os.__file__, "rb"):  # noqa: PTH123
            pass
    except OSError:
        os.seteuid(0)
        return
    os.seteuid(0)
    with contextlib.suppress(PermissionError):
        os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)


def count(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights, cache and sizes of a configuration. Raises what its class raises."""
    model = built(raw)
    return {**weighed(model), "cache": [list(layer) for layer in cached(model)]}


def built(raw: Mapping[str, Any]) -> Any:
    """Return the model of a configuration on the meta device. Raises LookupError for a type that
    transformers has not, and what the type's class raises."""
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415
    from transformers import initialization  # noqa: PLC0415

    options = {k: v for k, v in raw.items() if k not in {"auto_map", "quantization_config"}}
    kind = options.pop("model_type")
    if kind not in transformers.CONFIG_MAPPING:
        raise LookupError(f"transformers has no model type {kind}")
    config = transformers.CONFIG_MAPPING[kind](**{k: _finite(v) for k, v in options.items()})
    with torch.device("meta"), initialization.no_init_weights():
        model = auto_class(kind).from_config(config)
    model.tie_weights()
    return model


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(v) for v in value]
    if isinstance(value, dict) and value.keys() == {"__float__"}:
        return float(value["__float__"])
    return float(value) if value == "Infinity" else value


def auto_class(kind: str) -> Any:
    """Return the auto class that serves a model type: of chat models, else of models that see.
    Raises LookupError for one that does not chat."""
    import transformers  # noqa: PLC0415
    from transformers.models.auto import modeling_auto  # noqa: PLC0415

    if kind in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return transformers.AutoModelForCausalLM
    if kind in modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        return transformers.AutoModelForImageTextToText
    raise LookupError(f"{kind} is no model that chats")


def weighed(model: Any) -> dict[str, Any]:
    """Return the weights of a model by part and name, and its sizes."""
    text = model.config.get_text_config(decoder=True)
    sizes = {
        name: value
        for name, keys in _SIZES.items()
        if (value := next((v for k in keys if (v := _whole(text, k))), None))
    }
    return {
        "weights": [
            [
                "expert" if w.dim() == 3 and w.shape[0] == sizes.get("experts") else part_of(n),
                n,
                w.numel(),
            ]
            for n, w in model.named_parameters()
        ],
        "sizes": sizes,
        "latent": bool(vars(text).get("kv_lora_rank")),
    }


def _whole(config: Any, key: str) -> int | None:
    """Return a whole number of a configuration; None: it has none, or layers differ in it."""
    try:
        value = attrgetter(key)(config)
    except Exception:
        return None
    return value if type(value) is int else None


Kept = tuple[float, int | None, float, float, float]


def cached(model: Any) -> Iterator[Kept]:
    """Yield what each layer keeps: cached values per token, window, state, KV heads and their size.
    A latent vector stands for the keys and values that transformers expands it to."""
    import torch  # noqa: PLC0415

    text = model.config.get_text_config(decoder=True)
    rank = vars(text).get("kv_lora_rank")  # of all layers; with getattr, of layers that are equal
    layers = cache_layers(model)
    others = [_other_values(layer) for layer in layers]
    if any(".models." in type(layer).__module__ for layer in layers):
        longer = cache_layers(model, LONGER)  # a family's own cache can compress tokens
        others = [
            _by_length(*map(_other_values, pair)) for pair in zip(layers, longer, strict=True)
        ]
    for n, layer in enumerate(layers):
        token = heads = size = 0.0
        for name in ("keys", "values"):
            tensor = getattr(layer, name, None)
            sizes = sizes_per_token(name, tensor) if torch.is_tensor(tensor) else None
            if not sizes:
                continue
            if rank and sizes[0] > 1:
                token += (rank + text.qk_rope_head_dim) * (name == "keys")
                continue
            token += math.prod(sizes)
            if name == "keys" and len(sizes) == 2:
                heads, size = sizes
        (growing, state), window = others[n], getattr(layer, "sliding_window", None)
        if growing and window:  # beside a full window
            state, token, window = state + token * window, 0.0, None
        yield token + growing, window, state, heads, size


def _other_values(layer: Any) -> tuple[float, float]:
    """Return how many values a layer keeps beside keys and values: per token (of an index), and of
    any sequence."""
    import torch  # noqa: PLC0415

    growing = state = 0.0
    for name, value in vars(layer).items():
        for tensor in value.values() if isinstance(value, dict) else [value]:
            if name in {"keys", "values"} or not torch.is_tensor(tensor) or tensor.dim() < 2:
                continue
            sizes = sizes_per_token(name, tensor)
            growing += 0 if sizes is None else math.prod(sizes)
            state += tensor.numel() if sizes is None else 0
    return growing, state


def _by_length(short: tuple[float, float], long: tuple[float, float]) -> tuple[float, float]:
    first, second = short[0] * TOKENS + short[1], long[0] * TOKENS + long[1]
    growing = (second - first) / (LONGER - TOKENS)
    return growing, first - growing * TOKENS


def sizes_per_token(name: str, tensor: Any) -> tuple[int, ...] | None:
    """Return the sizes of a cached tensor without batch and tokens; None: it does not grow with the
    tokens. Keys and values of a window shorter than the pass, or with a prompt of the model's own
    before it, have another number of tokens."""
    sizes = [int(size) for size in tensor.shape[1:]]
    if TOKENS in sizes:
        sizes.remove(TOKENS)
    elif name in {"keys", "values"} and len(sizes) == 3:
        del sizes[1]
    else:
        return None
    return tuple(sizes)


def cache_layers(model: Any, tokens: int = TOKENS) -> list[Any]:
    """Return the layers of the cache that a forward pass over so many tokens leaves. Raises
    LookupError where there is none, and what the pass raises."""
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415
    from transformers import masking_utils  # noqa: PLC0415

    # Both look at the mask's values, which the meta device has not.
    masking_utils._ignore_causal_mask_sdpa = lambda *_, **__: False
    masking_utils.find_packed_sequence_indices = lambda *_, **__: None
    model = model.to(torch.bfloat16).eval()
    with contextlib.suppress(LookupError):
        return _layers(_forward_pass(model, tokens))
    # A class that fills a cache which it is given, and does not return its own.
    cache = transformers.DynamicCache(config=model.config.get_text_config(decoder=True))
    _forward_pass(model, tokens, cache=cache)
    if not any(getattr(layer, "keys", None) is not None for layer in cache.layers):
        raise LookupError("no cache")
    return list(cache.layers)


def _forward_pass(model: Any, tokens: int, **options: Any) -> Any:
    """Return the output of a pass over so many tokens. Raises what the last way of it raises."""
    import torch  # noqa: PLC0415

    problem: Exception | None = None
    for passed_over in _PASSED_OVER:
        try:
            with torch.no_grad(), torch.device("meta"), _passing(model, passed_over), _faked():
                ids = torch.zeros((1, tokens), dtype=torch.long)
                return model(input_ids=ids, use_cache=True, **options)
        except _OTHER_WAY as error:
            problem = error
    raise problem or LookupError("no cache")


def _layers(result: Any) -> list[Any]:
    """Return the layers of the cache in a model's output. Raises LookupError for none."""
    for name in ("past_key_values", "cache", "cache_params"):
        kept: Any = getattr(result, name, None)
        cache: Any = getattr(kept, "self_attention_cache", kept)
        if hasattr(cache, "layers"):
            return list(cache.layers)
        states = getattr(cache, "rnn_state", None)
        if isinstance(states, dict):  # xLSTM: tensors by layer
            return [SimpleNamespace(states=dict(enumerate(s))) for s in states.values()]
    states = getattr(result, "state", None)
    if isinstance(states, list):  # RWKV: the last dimension is the layer
        return [
            SimpleNamespace(states={n: s[..., i] for n, s in enumerate(states)})
            for i in range(states[0].shape[-1])
        ]
    raise LookupError("no cache")


_PASSED_OVER = (r"Experts$|MLP$|Norm$", r"Experts$|Norm$", r"Experts$|MoE|Moe|MLP$|Norm$", r"\Z.")
"""Modules that a forward pass leaves out, by class, in the order in which it is tried."""
_OTHER_WAY = (RuntimeError, ValueError, TypeError)
"""Errors after which the next way is tried: torch raises the first for values that the meta device
has not; the caller of a module that was left out raises the others where it unpacks the result."""


@contextlib.contextmanager
def _faked() -> Iterator[None]:
    """Let attention return a tensor of its result's shape: on the meta device the steps to it take
    most of the time."""
    from torch.nn import functional  # noqa: PLC0415

    before = functional.scaled_dot_product_attention

    def shaped(query: Any, _key: Any, value: Any, *_: Any, **__: Any) -> Any:
        return query.new_empty((*query.shape[:-1], value.shape[-1]))

    setattr(functional, "scaled_dot_product_attention", shaped)  # noqa: B010
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = before


@contextlib.contextmanager
def _passing(model: Any, names: str) -> Iterator[None]:
    """Let modules whose class has such a name return their input: which experts a token takes is
    not known on the meta device, and does not change the cache."""
    changed = [m for m in model.modules() if re.search(names, type(m).__name__)]
    for module in changed:
        module.forward = lambda hidden, *_, **__: hidden
    try:
        yield
    finally:
        for module in changed:
            module.__dict__.pop("forward", None)
