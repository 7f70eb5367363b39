"""Configurations that show what defaults and single changes of a family do not: old spellings of
keys in published files, and kinds of layers that only two keys together switch on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
    "lfm2_moe": [{"layer_types": ["conv", "conv", "full_attention", "conv"] * 4},
                 {"layer_types": ["conv"] * 5 + ["full_attention"] + ["conv"] * 10}],
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

LEFT_OUT = frozenset({"bailing_hybrid", "gemma3n_text", "inkling2_loop_text"})
"""Families whose table entry disagrees with their class at its defaults."""
