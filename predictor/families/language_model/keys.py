"""Check that every number of a configuration is used in the count or known to change nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model.towers import is_tower

_HARMLESS = re.compile(
    r"(^|[_.])("
    r"token_ids?|token_index|dropout|pdrop|drop_?rate|layerdrop|eps|epsilon|rope_theta|rope_scaling"
    r"|rope_parameters|rope_local_base_freq|rotary_base|rotary_emb_base|rope_base"
    r"|partial_rotary_factor|rotary_dim|rotary_pct|rotary_percent|initializer_range|initializer_factor"
    r"|init_std|loss_coef|balance_coeff|loss_weight|z_loss|loss_alpha|soft_?cap(ping)?|logit_scale"
    r"|logits_scaling|jitter_noise|jitter_eps|(embedding|residual|attention|logits?|key|lm_head"
    r"|ssm|mlp)_multipliers?|scaling_factor|no_repeat_ngram_size|max_position_embeddings"
    r"|attn_scale|floor_scale|query_pre_attn_scalar|swiglu_limit"
    r")$"
    r"|^("
    r"temperature|top_[kp]|max_length|min_length|length_penalty|num_beams|num_beam_groups"
    r"|repetition_penalty|num_return_sequences|diversity_penalty|typical_p|max_new_tokens"
    r"|summary_\w+|id2label|label2id|num_labels|pretraining_tp|quantization(_config)?"
    r"|compression_config|task_specific_params|generation_config|auto_map|clip_qkv|scale_emb"
    r"|scale_depth|dim_model_base|mup_\w+|n_ctx|n_positions|max_seq_len|max_sequence_length"
    r"|model_max_length|seq_length|max_seq_length|original_max_position_embeddings"
    r"|time_step_(min|max|limit|floor)|beta_fast|beta_slow|n_group|topk_group|topk_groups|num_(expert|limited)_groups"
    r"|num_nextn_predict_layers|num_mtp_\w+|mtp_\w+|num_mtp_modules|ep_size|begin_suppress_tokens"
    r"|suppress_tokens|max_window_layers|chunk_size_feed_forward|problem_type|freeze_\w+"
    r"|use_\w+|\w+_bp_cycles|ignore_index|norm_topk_prob|seed|init_\w+|router_bias_update_rate|alpha|beta"
    r"|transformers\.js_config|_\w+|unsloth_\w+|num_logits_to_keep|no_bias|base_model_\w+"
    r")$"
)
"""Numbers whose names say that no weight and no cached value depends on them: token ids, rates,
scales, limits of generation, training losses. Draft layers (MTP) are not part of a checkpoint's
count, as in transformers."""


_SAME_AS: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("block_dim", "conv_dim", "conv_dim_out", "n_embd", "n_embed", "d_model", "dim"),
    "layers": ("num_layers", "n_layer", "n_layers", "num_blocks", "n_blocks"),
    "heads": ("num_heads", "n_heads", "n_head", "num_query_groups", "num_key_value_heads",
              "num_kv_heads", "n_head_kv"),
    "head_dim": ("attention_head_dim", "kv_channels", "head_dim", "head_size", "attn_head_dim"),
    "feed_forward_size": ("ffn_hidden_size", "n_inner", "ffn_dim", "inner_hidden_size"),
    "experts": ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"),
    "experts_per_token": ("experts_per_token", "num_experts_per_tok", "num_experts_per_token",
                          "moe_topk", "moe_top_k", "moe_k", "num_selected_experts"),
    "vocabulary": ("org_vocab_size", "padded_vocab_size"),
}  # fmt: skip
"""Other names of a size that files write beside the family's own: harmless with the same value."""
_EVERY = re.compile(r"(freq|frequency|interval|step|period|ep_size|moe_layer_freq)$")


def check(
    entry: Mapping[str, Any], config: Mapping[str, Any], harmless: Iterable[str], counted: object,
    source: Path | str,
) -> None:  # fmt: skip
    """Raise DocumentError for a key that is neither used by the entry nor known to be harmless and
    that holds numbers, or that differs from the only value that was counted right.

    ``counted`` has the sizes that were counted: a key that repeats one under another name is
    harmless.
    """
    repeated = {key: getattr(counted, size) for size, keys in _SAME_AS.items() for key in keys}
    known = {*entry["harmless"], *harmless, "num_hidden_layers"}  # checked against the count
    for name, key, value in _unused(entry, config, ""):
        if name in entry["fixed"]:
            wanted = entry["fixed"][name]
            if value is not None and value != wanted:
                raise DocumentError(
                    source,
                    f"is {str(value)[:40]}; Berth counts {entry['model_type']} only with {wanted}",
                    key=key,
                )
            continue
        if value == 1 and _EVERY.search(name):
            continue  # every layer, as without the key
        if name in known or _HARMLESS.search(name) or not _has_numbers(value):
            continue
        if name in repeated and value == repeated[name]:
            continue
        raise DocumentError(
            source,
            f"is {str(value)[:40]}, a number that Berth does not know of the family "
            f"{entry['model_type']}; its count could be wrong",
            key=key,
            hint="remove the key if it changes neither weights nor cache",
        )


def _unused(
    entry: Mapping[str, Any], config: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, str, Any]]:
    used, aliases = entry["defaults"], entry["aliases"]
    for key, value in config.items():
        name = aliases.get(prefix + key, prefix + key)
        if name in used:
            continue
        if name == "per_layer_config" and isinstance(value, dict):
            for changed in value.values():
                yield from _unused(entry, changed, prefix)
            continue
        if isinstance(value, dict) and any(k.startswith(f"{name}.") for k in used):
            if not is_tower(name):
                yield from _unused(entry, value, f"{name}.")
            continue
        yield name, prefix + key, value


def _has_numbers(value: Any) -> bool:
    """Return whether a value holds a number that could be a size; 0 and -1 say that something is
    absent."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return False
    if isinstance(value, int | float):
        return value not in (0, -1)
    if isinstance(value, dict):
        return any(_has_numbers(v) for v in value.values())
    if isinstance(value, list):
        return any(_has_numbers(v) for v in value[:10_000])
    return True
