"""The child process that counts a configuration by transformers: JSON in, JSON out.

It drops its rights before it imports torch, builds the class that transformers itself has for the
``model_type`` (``auto_map`` is removed), and runs one forward pass on the meta device. The lab
holds the table of families to the same functions.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import sys
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

TOKENS = 37
"""Length of the forward pass; no size of a configuration equals this prime."""
_SECONDS = 80
_NOBODY = 65534
_SIZES = {
    "hidden": ("hidden_size",), "heads": ("num_attention_heads",),
    "feed_forward": ("intermediate_size",), "vocabulary": ("vocab_size",),
    "expert_width": ("moe_intermediate_size", "intermediate_size"),
    "positions": ("max_position_embeddings",), "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "experts": ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"),
    "chosen": ("num_experts_per_tok", "moe_topk", "moe_top_k", "moe_k", "num_experts_per_token",
               "top_k_experts", "num_selected_experts"),
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
    for limit, value in (
        (resource.RLIMIT_CPU, _SECONDS), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 2**20)
    ):  # fmt: skip
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
    """Return a value with the infinite numbers that JSON has not."""
    if isinstance(value, list):
        return [_finite(v) for v in value]
    if isinstance(value, dict) and value.keys() == {"__float__"}:
        return float(value["__float__"])
    return float(value) if value == "Infinity" else value


def auto_class(kind: str, *, seeing: bool = False) -> Any:
    """Return the auto class that serves a model type: of chat models, else of models that see
    (these first with ``seeing``). Raises LookupError for one that does not chat."""
    import transformers  # noqa: PLC0415
    from transformers.models.auto import modeling_auto  # noqa: PLC0415

    causal = kind in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if kind in modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES and not (
        causal and not seeing
    ):
        return transformers.AutoModelForImageTextToText
    if not causal:
        raise LookupError(f"{kind} is no model that chats")
    return transformers.AutoModelForCausalLM


def weighed(model: Any) -> dict[str, Any]:
    """Return the weights of a model by part and name, and its sizes."""
    text = model.config.get_text_config(decoder=True)
    sizes = {
        name: value
        for name, keys in _SIZES.items()
        if (value := next((v for k in keys if (v := _whole(text, k))), None))
    }
    return {
        "weights": [[part_of(n), n, w.numel()] for n, w in model.named_parameters()],
        "sizes": sizes,
        "latent": bool(getattr(text, "kv_lora_rank", None)),
    }


def _whole(config: Any, key: str) -> int | None:
    """Return a whole number of a configuration; None: it has none, or layers differ in it."""
    try:
        value = getattr(config, key, None)
    except Exception:
        return None
    return value if type(value) is int else None


Kept = tuple[float, int | None, float, float, float]


def cached(model: Any) -> Iterator[Kept]:
    """Yield what each layer keeps: cached values per token, window, state, KV heads and their size.
    A latent vector stands for the keys and values that transformers expands it to."""
    import torch  # noqa: PLC0415

    text = model.config.get_text_config(decoder=True)
    rank = getattr(text, "kv_lora_rank", None)
    for layer in cache_layers(model):
        token = state = heads = size = 0.0
        for name, value in vars(layer).items():
            for tensor in value.values() if isinstance(value, dict) else [value]:
                if not torch.is_tensor(tensor) or tensor.dim() < 2:
                    continue
                if TOKENS not in tensor.shape:
                    state += tensor.numel()
                elif rank and name in {"keys", "values"}:
                    token += (rank + text.qk_rope_head_dim) * (name == "keys")
                else:
                    token += tensor.numel() / TOKENS
                    if name == "keys" and tensor.dim() == 4:
                        heads, size = tensor.shape[1], tensor.shape[3]
        yield token, getattr(layer, "sliding_window", None), state, heads, size


def cache_layers(model: Any) -> list[Any]:
    """Return the layers of the cache that a forward pass over ``TOKENS`` tokens leaves. Raises
    LookupError where there is none, and what the pass raises."""
    import torch  # noqa: PLC0415
    from transformers import masking_utils  # noqa: PLC0415

    # Both look at the mask's values, which the meta device has not.
    masking_utils._ignore_causal_mask_sdpa = lambda *_, **__: False
    masking_utils.find_packed_sequence_indices = lambda *_, **__: None
    model = model.to(torch.bfloat16).eval()
    result: Any = None
    for passed_over in _PASSED_OVER:
        try:
            with torch.no_grad(), torch.device("meta"), _passing(model, passed_over), _faked():
                ids = torch.zeros((1, TOKENS), dtype=torch.long)
                result = model(input_ids=ids, use_cache=True)
            break
        except (RuntimeError, NotImplementedError, ValueError, TypeError):
            if passed_over == _PASSED_OVER[-1]:
                raise
    return _layers(result)


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
