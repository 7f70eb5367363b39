"""The child process that counts a configuration by transformers: JSON in, JSON out.

It drops its rights before it imports torch, builds the class that transformers itself has for the
``model_type`` (``auto_map`` is removed), and runs one forward pass on the meta device.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import sys
from collections.abc import Iterator
from typing import Any

_TOKENS = 37
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


def count(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the weights, cache and sizes of a configuration. Raises what its class raises."""
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415
    from transformers import initialization  # noqa: PLC0415
    from transformers.models.auto import modeling_auto  # noqa: PLC0415

    options = {k: v for k, v in raw.items() if k not in {"auto_map", "quantization_config"}}
    kind = options.pop("model_type")
    if kind not in transformers.CONFIG_MAPPING:
        raise LookupError(f"transformers has no model type {kind}")
    config = transformers.CONFIG_MAPPING[kind](**options)
    seen = modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    auto = transformers.AutoModelForImageTextToText
    if kind in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        auto = transformers.AutoModelForCausalLM
    elif kind not in seen:
        raise LookupError(f"{kind} is no model that chats")
    with torch.device("meta"), initialization.no_init_weights():
        model = auto.from_config(config)
    model.tie_weights()
    model = model.to(torch.bfloat16)
    text = config.get_text_config(decoder=True)
    sizes = {
        name: value
        for name, keys in _SIZES.items()
        if (value := next((v for k in keys if (v := _whole(text, k))), None))
    }
    rank = getattr(text, "kv_lora_rank", None)
    latent = rank + text.qk_rope_head_dim if rank else 0
    return {
        "weights": [[part_of(n), n, w.numel()] for n, w in model.named_parameters()],
        "cache": [list(layer) for layer in _cache(model, latent)],
        "sizes": sizes,
        "latent": bool(rank),
    }


def _whole(config: Any, key: str) -> int | None:
    """Return a whole number of a configuration; None: it has none, or layers differ in it."""
    try:
        value = getattr(config, key, None)
    except Exception:
        return None
    return value if type(value) is int else None


def _cache(model: Any, latent: int) -> Iterator[tuple[float, int | None, float]]:
    """Yield cached values per token, window and state of each layer."""
    import torch  # noqa: PLC0415
    from transformers import masking_utils  # noqa: PLC0415

    masking_utils._ignore_causal_mask_sdpa = lambda *_, **__: False
    masking_utils.find_packed_sequence_indices = lambda *_, **__: None
    for module in model.modules():
        if type(module).__name__.endswith("Experts"):
            module.forward = lambda hidden, *_, **__: hidden
    with torch.no_grad(), torch.device("meta"):
        ids = torch.zeros((1, _TOKENS), dtype=torch.long)
        result = model.eval()(input_ids=ids, use_cache=True)
    cache = getattr(result, "past_key_values", None) or result.cache_params
    for layer in getattr(cache, "self_attention_cache", cache).layers:
        token = state = 0.0
        for name, value in vars(layer).items():
            for tensor in value.values() if isinstance(value, dict) else [value]:
                if not torch.is_tensor(tensor) or tensor.dim() < 2:
                    continue
                if _TOKENS not in tensor.shape:
                    state += tensor.numel()
                elif latent and name in {"keys", "values"}:
                    token += latent * (name == "keys")
                else:
                    token += tensor.numel() / _TOKENS
        yield token, getattr(layer, "sliding_window", None), state
