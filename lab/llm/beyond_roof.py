"""Predictions of drawn models, loads and devices, held to the data sheets.

Each draw is a decoder of random shape (dense, experts or latent attention) under a random load on
every device of the catalogue. The bounds here are written from the data sheets alone, without the
code that predicts: tokens a second times the operations of a token, times the bytes of its cache,
times the bytes that it sends, and the steps a second times the active weights.
``python -m lab beyond-roof`` prints how many predictions are beyond a bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from berth.plugin.report.progress_bars import step_bar
from berth.predictor.families.language_model.config import LanguageModel, from_mapping
from berth.predictor.families.language_model.load import Load
from berth.predictor.families.language_model.predictor import LlmPredictor, ServingPrediction
from berth.predictor.hardware.catalogue import devices
from berth.predictor.hardware.unit import Unit, published, unit_named
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section

PREDICTIONS = 100_000
_SLACK = 1.0 + 1e-9
_FRAMEWORKS = ("vllm", "trtllm", "sglang", "llama.cpp", "nobody-measured-it")


@dataclass(frozen=True, slots=True)
class Draw:
    """A model under a load with a framework."""

    model: LanguageModel
    load: Load
    framework: str


def draws(seed: int) -> Iterator[Draw]:
    """Yield draws without end; the same seed gives the same ones."""
    generator = np.random.default_rng(seed)
    while True:
        model = from_mapping(_config(generator), source="draw", name="drawn")
        tensor = int(generator.choice([1, 2, 4, 8]))
        data = int(generator.choice([1, 1, 2, 8]))
        pipeline = int(generator.choice([1, 1, 1, 2]))
        groups = min(model.experts, tensor * data)
        bits = float(generator.choice([4.0, 8.0, 16.0]))
        load = Load(
            _log_drawn(generator, 1, 100_000), _log_drawn(generator, 1, 100_000),
            _log_drawn(generator, 1, 30_000), bits, float(generator.choice([8.0, 16.0])), tensor,
            pipeline, data, int(generator.choice([1, groups])),
        )  # fmt: skip
        yield Draw(model, load, str(generator.choice(_FRAMEWORKS)))


def _log_drawn(generator: np.random.Generator, least: int, most: int) -> int:
    return int(np.exp(generator.uniform(np.log(least), np.log(most))))


def _config(generator: np.random.Generator) -> dict[str, Any]:
    heads = int(generator.choice([8, 16, 32, 64, 128]))
    layers = int(generator.integers(4, 128))
    config: dict[str, Any] = {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": 128 * heads,
        "num_attention_heads": heads,
        "num_key_value_heads": int(generator.choice([1, 8, heads])) if heads > 1 else 1,
        "head_dim": 128,
        "intermediate_size": 128 * heads * int(generator.choice([2, 3, 4])),
        "vocab_size": int(generator.choice([32_000, 128_256, 256_000])),
        "max_position_embeddings": 131_072,
        "tie_word_embeddings": bool(generator.integers(2)),
    }
    kind = generator.choice(["dense", "experts", "latent"])
    if kind == "experts":
        config |= {"model_type": "mixtral", "num_experts_per_tok": int(generator.integers(1, 9)),
                   "num_local_experts": int(generator.choice([8, 16, 128]))}  # fmt: skip
    if kind == "latent":
        config |= {
            "model_type": "deepseek_v3", "kv_lora_rank": 512, "q_lora_rank": 1536,
            "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
            "n_routed_experts": 64, "num_experts_per_tok": 8, "n_shared_experts": 1,
            "moe_intermediate_size": 2048, "first_k_dense_replace": min(3, layers - 1),
        }  # fmt: skip
    return config


def beyond(draw: Draw, device: Unit, prediction: ServingPrediction) -> list[str]:
    """Return the names of the bounds that a prediction exceeds."""
    m, load = draw.model, draw.load
    gpus, bits = load.gpus, load.weight_bits / 8
    rate = prediction.throughput.high
    answers = rate * load.output_tokens / (load.input_tokens + load.output_tokens)
    inner = m.active_parameters - m.embedding_parameters
    cache = m.cached_values(load.context) * load.kv_bits / 8
    bandwidth = device.bytes_per_s * gpus
    resident = min(load.batch, max(1.0, device.memory_bytes * gpus / max(cache, 1.0)))
    link = device.sheet.link_bytes_per_s or np.inf
    sent = m.layers * m.hidden_size * 2 * (load.tensor_parallel - 1) / load.tensor_parallel
    peak = device.flops_per_s(load.weight_bits) * gpus
    bounds = {
        "products": rate * 2 * inner <= peak * _SLACK,
        "cache": answers * cache <= bandwidth * _SLACK,
        "weights": answers * inner * bits <= bandwidth * max(resident, 1.0) * _SLACK,
        "link": rate * sent <= link * load.data_parallel * _SLACK,
        "first token": 2 * inner * load.input_tokens <= prediction.ttft_s.low * peak * _SLACK,
        "further token": inner * bits <= prediction.tpot_s.low * bandwidth * _SLACK,
    }  # fmt: skip
    return [name for name, holds in bounds.items() if not holds]


def count_beyond(predictions: int, seed: int) -> tuple[int, Counter[str]]:
    """Return the number of predictions that were made, and of those beyond each bound."""
    predictor = LlmPredictor.load()
    places = [unit_named(d.name) for d in devices().values() if published(d)]
    counts: Counter[str] = Counter()
    made = 0
    for draw in draws(seed):
        for device, prediction in zip(
            places, predictor.predict(draw.model, draw.load, places, draw.framework), strict=True
        ):
            if prediction.fits:
                counts.update(beyond(draw, device, prediction))
        made += len(places)
        if made >= predictions:
            return made, counts
    raise AssertionError("draws have no end")


def evaluate(options: Options) -> Report:
    """Return how many predictions are beyond each bound."""
    with step_bar("drawing", 1) as advance:
        made, counts = count_beyond(PREDICTIONS, options.seed)
        advance()
    rows = [(name, str(count)) for name, count in sorted(counts.items())] or [("none", "0")]
    return Report(
        "Language models beyond the hardware's roof",
        (f"{made} predictions of drawn models and loads on every device of the catalogue.",),
        (Section("Predictions beyond a bound", ("bound", "predictions"), rows),),
        {"predictions": made, "beyond": dict(counts)},
        {"predictions beyond a bound": float(sum(counts.values()))},
    )
