"""List the key names of Hugging Face configurations by family of models, and read keys with
checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HIDDEN = ("hidden_size", "n_embd", "d_model", "dim", "model_dim")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num",
            "n_kv_heads")  # fmt: skip
FFN = ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "d_ff", "hidden_dim")
VOCABULARY = ("vocab_size", "padded_vocab_size", "n_vocab")
POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx",
             "max_sequence_length")  # fmt: skip
EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
EXPERTS_PER_TOKEN = ("num_experts_per_tok", "experts_per_token", "num_experts_per_token",
                     "moe_top_k", "moe_k", "num_selected_experts", "top_k_experts")  # fmt: skip
EXPERT_WIDTH = ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size")

UNGATED = frozenset(
    {"gpt2", "gpt_neo", "gpt_neox", "gpt_neox_japanese", "gptj", "gpt_bigcode", "opt", "bloom",
     "falcon", "refinedweb", "refinedwebmodel", "mpt", "phi", "codegen", "starcoder2", "xglm",
     "nemotron", "persimmon", "biogpt", "ctrl"}
)  # fmt: skip
"""Families whose feed-forward layer has two matrices; all others have a gated layer with three."""
TIED_BY_DEFAULT = frozenset(
    {"gpt2", "gpt_neo", "gpt_bigcode", "opt", "bloom", "falcon", "refinedweb", "refinedwebmodel",
     "mpt", "gemma", "gemma2", "gemma3", "gemma3_text", "cohere", "cohere2", "starcoder2", "xglm",
     "ctrl"}
)  # fmt: skip
WINDOW_PATTERN = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}
"""Period of full-attention layers by family: one layer in so many attends to all tokens, the others
to a window."""
ENCODERS = frozenset(
    {"bert", "roberta", "xlm-roberta", "distilbert", "deberta", "deberta-v2", "albert", "electra",
     "mpnet", "modernbert", "vit", "clip", "t5", "mt5", "umt5", "bart", "mbart", "pegasus", "led",
     "longformer", "bigbird", "whisper", "wav2vec2", "hubert", "marian", "m2m_100", "swin"}
)  # fmt: skip
OTHERS = frozenset({"mamba", "mamba2", "rwkv", "rwkv5", "rwkv7", "xlstm", "falcon_mamba", "jamba",
                    "bamba", "zamba", "zamba2", "recurrent_gemma"})  # fmt: skip


class Keys:
    """A Hugging Face configuration whose values are read by any of several key names; errors name
    the file and key."""

    def __init__(self, values: Mapping[str, Any], source: Path | str) -> None:
        self._values = values
        self.source = source

    def get(self, names: tuple[str, ...]) -> Any:  # any JSON value
        """Return the value of the first of ``names`` that is present and not null; None: none
        is."""
        return next((self._values[n] for n in names if self._values.get(n) is not None), None)

    def found(self, names: tuple[str, ...]) -> str:
        """Return the name whose value ``get`` returns; the first of ``names`` if none is
        present."""
        return next((n for n in names if self._values.get(n) is not None), names[0])

    def whole(
        self, names: tuple[str, ...], *, default: int | None = None, most: int = 1_000_000_000
    ) -> int:
        """Return the whole number, from 1 to ``most``, under the first of ``names`` that is
        present.

        If the value is missing, or is 0, the default is returned. Raises DocumentError if the value
        is missing without a default or is not such a number.
        """
        value = self.get(names)
        if value is None or (value == 0 and default is not None and type(value) is int):
            if default is None:
                others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
                raise DocumentError(self.source, f"is missing{others}", key=names[0])
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int or not 1 <= value <= most:
            shown = repr(value)[:40]
            raise DocumentError(
                self.source,
                f"must be a whole number from 1 to {most} (it is {shown})",
                key=self.found(names),
            )
        return value
