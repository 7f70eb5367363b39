"""Configurations that show what defaults and single changes of a family do not: old spellings of
keys in published files, and kinds of layers that only two keys together switch on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_INDEXER = {"indexer_n_heads": 8, "indexer_kv_heads": 1, "indexer_head_dim": 256,
            "indexer_budget": 2048, "indexer_compress_ratio": 4}  # fmt: skip
SAMPLES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "nemotron_h": [
        {"hybrid_override_pattern": "MEMEM*EM-EM*EM-E", "num_hidden_layers": 16},
        {"hybrid_override_pattern": "M-M-M-M*-M-M-M-M*-", "num_hidden_layers": 18},
    ],
    "dots1": [{"n_routed_experts": 32, "n_shared_experts": 2, "num_experts_per_tok": 4,
               "first_k_dense_replace": 1}],
    "hunyuan_v1_dense": [{"head_dim": 96, "num_key_value_heads": 8}],
    "hunyuan_v1_moe": [{"head_dim": 96, "num_key_value_heads": 8, "num_experts": 24,
                        "moe_topk": 3}],
    "ministral": [{"head_dim": 96, "num_key_value_heads": 8}],
    "lfm2_moe": [
        {"layer_types": ["conv", "conv", "full_attention", "conv"] * 4, "num_hidden_layers": 16},
        {"layer_types": ["conv"] * 5 + ["full_attention"] + ["conv"] * 10,
         "num_hidden_layers": 16},
    ],
    "nemotron": [{"num_key_value_heads": 8}],
    "deepseek_v2": [{"num_experts_per_tok": 6}],
    "dbrx": [{"attn_config": {"kv_n_heads": 8, "clip_qkv": 8.0, "rope_theta": 500000.0}}],
    "cohere_compass_text": [{"rope_parameters": {"full_attention": _ROPE}},
                            {"rope_parameters": {"full_attention": _ROPE,
                                                 "sliding_attention": _ROPE},
                             "layer_types": ["sliding_attention"] * 5 + ["full_attention"] * 11,
                             "num_hidden_layers": 16}],
    "gemma4_text": [
        {"hidden_size_per_layer_input": 0},
        {"hidden_size_per_layer_input": 0, "enable_moe_block": True, "num_experts": 16,
         "top_k_experts": 4, "moe_intermediate_size": 704},
        {"attention_k_eq_v": True, "num_global_key_value_heads": 2},
        {"num_kv_shared_layers": 6, "use_double_wide_mlp": True},
    ],
    "gemma4_unified_text": [{"attention_k_eq_v": True, "num_global_key_value_heads": 2},
                            {"num_kv_shared_layers": 6, "use_double_wide_mlp": True}],
    "laguna": [{"layer_types": ["full_attention", *["sliding_attention"] * 3] * 4,
                "num_attention_heads_per_layer": [48, 64, 64, 64] * 4, "num_hidden_layers": 16}],
    "zamba2": [{"num_mem_blocks": 2, "use_shared_attention_adapter": True},
               {"num_mem_blocks": 2, "layers_block_type": ["mamba", "hybrid"] * 8,
                "num_hidden_layers": 16}],
    "emu3": [{"vocabulary_map": {"<image>": 151851}}],
    "qwen4_exp_text": [_INDEXER],
    "qwen4_exp": [{"text_config": _INDEXER}],
    "lfm2": [{"full_attn_idxs": [2, 5, 8, 10]}, {"full_attn_idxs": [1, 4], "block_ff_dim": 4096}],
    "bamba": [{"attn_layer_indices": [4, 9, 13]}, {"attn_layer_indices": [2, 7]}],
    "granitemoehybrid": [
        {"layer_types": (["mamba"] * 5 + ["attention"]) * 2 + ["mamba"] * 4},
        {"layer_types": ["attention"] * 8 + ["mamba"] * 8, "num_local_experts": 0},
    ],
    "qwen2": [{"use_sliding_window": True, "max_window_layers": 4},
              {"use_sliding_window": True, "max_window_layers": 7, "sliding_window": 64}],
    "qwen2_moe": [{"use_sliding_window": True, "max_window_layers": 4}],
    "qwen2_vl_text": [{"use_sliding_window": True, "max_window_layers": 4},
                      {"use_sliding_window": True, "max_window_layers": 7, "sliding_window": 64}],
    "qwen2_5_vl_text": [{"use_sliding_window": True, "max_window_layers": 4},
                        {"use_sliding_window": True, "max_window_layers": 7, "sliding_window": 64}],
    "qwen3": [{"use_sliding_window": True, "max_window_layers": 4},
              {"use_sliding_window": True, "max_window_layers": 7, "sliding_window": 64}],
}  # fmt: skip

LEFT_OUT = frozenset({"deepseek_v4", "inkling2_loop_text", "longcat_flash", "moshi"})
"""Families whose cache no row of the table says (tokens compressed to one, layers passed again), or
whose class holds more than the checkpoint (experts that do nothing) or less (a second decoder)."""
