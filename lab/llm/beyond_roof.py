"""Predictions of drawn models, loads and devices, held to the data sheets.

Each draw is a decoder of the data sets (dense, experts or latent attention) under a random load on
every device of the catalogue. The bounds here are written from the data sheets alone, without the
code that predicts: tokens a second times the operations of a token, times the bytes of its cache,
times the bytes that it sends, and the steps a second times the active weights.
``python -m lab beyond-roof`` prints how many predictions are beyond a bound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from berth.plugin.report.progress_bars import step_bar
from berth.predictor.families.language_model.config import LanguageModel
from berth.predictor.families.language_model.load import LlmLoad
from berth.predictor.families.language_model.predictor import LlmPredictor, ServingPrediction
from berth.predictor.hardware.catalogue import devices
from berth.predictor.hardware.unit import Unit, published, unit_named
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.llm.cases import models

PREDICTIONS = 100_000
_MOST = (100_000, 100_000, 30_000)
"""Largest batch, prompt and answer that are drawn."""
_SLACK = 1.0 + 1e-9
_FRAMEWORKS = ("vllm", "trtllm", "sglang", "llama.cpp", "nobody-measured-it")


@dataclass(frozen=True, slots=True)
class Draw:
    """A model under a load with a framework."""

    model: LanguageModel
    load: LlmLoad
    framework: str


def draws(seed: int) -> Iterator[Draw]:
    """Yield draws without end; the same seed gives the same ones."""
    generator = np.random.default_rng(seed)
    while True:
        model = list(models().values())[generator.integers(len(models()))]
        tensor = int(generator.choice([n for n in (1, 2, 4, 8) if model.heads % n == 0]))
        data, pipeline = int(generator.choice([1, 1, 2, 8])), int(generator.choice([1, 1, 1, 2]))
        batch, prompt, answer = (
            int(math.exp(generator.uniform(0, math.log(most)))) for most in _MOST
        )
        load = LlmLoad(
            batch, prompt, answer, float(generator.choice([4.0, 8.0, 16.0])),
            float(generator.choice([8.0, 16.0])), tensor, pipeline, data,
            int(generator.choice([1, min(model.experts, tensor * data)])),
            prefix_hit_rate=float(generator.choice([0.0, 0.0, 0.9])),
        )  # fmt: skip
        yield Draw(model, load, str(generator.choice(_FRAMEWORKS)))


def beyond(draw: Draw, device: Unit, prediction: ServingPrediction) -> list[str]:
    """Return the names of the bounds that a prediction exceeds."""
    m, load = draw.model, draw.load
    gpus, bits = load.gpus, load.weight_bits / 8
    prompt = max(1.0, load.input_tokens * (1 - load.prefix_hit_rate))
    answers = prediction.throughput.high * load.output_tokens
    answers /= load.input_tokens + load.output_tokens
    rate = answers * (prompt + load.output_tokens) / load.output_tokens
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
        "link": rate * sent <= link * load.data_parallel * load.pipeline_parallel * _SLACK,
        "first token": 2 * inner * prompt <= prediction.ttft_s.low * peak * _SLACK,
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
