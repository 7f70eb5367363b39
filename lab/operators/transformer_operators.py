"""NeuSight's language models as operators, from their Hugging Face configurations.

A model is exported with one and with two layers; what the second adds is repeated. The backward
pass is made from the forward one: each product has two (for its inputs and for its weights), each
operator on vectors one that also reads what was kept.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.graph.operators.calls import MATRIX_KINDS, CallKind, Calls, calls_of
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.hardware.device import Numbers


def _gpt2(width: int, heads: int, layers: int, positions: int) -> dict[str, Any]:
    return {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": width,
        "n_head": heads, "n_layer": layers, "n_ctx": positions, "n_positions": positions,
        "vocab_size": 50257, "activation_function": "gelu_new",
    }  # fmt: skip


CONFIGURATIONS: Mapping[str, dict[str, Any]] = {
    "bert_large": {
        "model_type": "bert", "architectures": ["BertLMHeadModel"], "hidden_size": 1024,
        "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24,
        "max_position_embeddings": 512, "vocab_size": 30522, "hidden_act": "gelu",
    },
    "gpt2_large": _gpt2(1280, 20, 36, 1024),
    "gpt3_xl": _gpt2(3072, 24, 24, 2048),
    "gpt3_27": _gpt2(2560, 32, 32, 2048),
    "opt_13": {
        "model_type": "opt", "architectures": ["OPTForCausalLM"], "hidden_size": 2048,
        "ffn_dim": 8192, "num_attention_heads": 32, "num_hidden_layers": 24,
        "max_position_embeddings": 2048, "word_embed_proj_dim": 2048, "vocab_size": 50272,
        "activation_function": "relu", "do_layer_norm_before": True,
    },
}  # fmt: skip
"""Published shapes: BERT-large, GPT-2 large, GPT-3 XL and 2.7B as NeuSight has them, OPT-1.3B."""
_LAYERS = {"bert": "num_hidden_layers", "gpt2": "n_layer", "opt": "num_hidden_layers"}


@dataclass(frozen=True)
class Operators:
    """Calls, and how often each is run."""

    calls: Calls
    times: Floats


@cache
def forward(model: str, batch: int, sequence: int, *, compiled: bool = False) -> Operators:
    """Return one forward pass in fp32, ``compiled`` or not. Raises ToolMissing without
    transformers."""
    settings = CONFIGURATIONS[model]
    layers = int(settings[_LAYERS[settings["model_type"]]])
    one, two = (
        _operators(_export(model, count, batch, sequence), compiled=compiled) for count in (1, 2)
    )
    return Operators(
        Calls.joined(one.calls, two.calls),
        np.concatenate([(2 - layers) * one.times, (layers - 1) * two.times]),
    )


def backward(given: Operators) -> Operators:
    """Return the gradients of inputs and of weights of everything in a forward pass."""
    calls = given.calls
    matrix = np.isin(calls.kind, MATRIX_KINDS)
    products, times = calls[matrix], given.times[matrix]
    inputs = replace(products, columns=products.inner, inner=products.columns)
    weights = replace(products, rows=products.inner, columns=products.columns, inner=products.rows)
    vector = calls[~matrix]
    spread = np.where(vector.kind == CallKind.BINARY, 1.0, 1.5)
    vectors = replace(
        vector,
        kind=np.where(vector.kind == CallKind.UNARY, int(CallKind.BINARY), vector.kind),
        moved_bytes=vector.moved_bytes * spread,
        flops=vector.flops * 2,
    )
    return Operators(
        Calls.joined(inputs, weights, vectors),
        np.concatenate([times, times, given.times[~matrix]]),
    )


def model_graph(model: str, batch: int, sequence: int) -> ModelGraph:
    """Return the whole model's graph. Raises ToolMissing without transformers."""
    settings = CONFIGURATIONS[model]
    return _export(model, int(settings[_LAYERS[settings["model_type"]]]), batch, sequence)


@cache
def _export(model: str, layers: int, batch: int, sequence: int) -> ModelGraph:
    from berth.predictor.graphs.front_ends import huggingface  # noqa: PLC0415 - needs torch

    settings = CONFIGURATIONS[model]
    changed = {**settings, _LAYERS[settings["model_type"]]: layers}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(changed), encoding="utf-8")
        return huggingface.graph_of(path, batch=batch, sizes={"sequence": sequence})


def _operators(graph: ModelGraph, *, compiled: bool) -> Operators:
    found = calls_of(graph, Numbers.FP32, compiled=compiled)
    return Operators(found.calls[found.runs], found.times[found.runs].astype(np.float64))
