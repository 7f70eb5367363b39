"""No prediction is beyond the hardware; requests that wait add no tokens a second."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from berth.predictor.families.language_model.config import LanguageModel
from berth.predictor.families.language_model.load import LlmLoad
from berth.predictor.families.language_model.predictor import LlmPredictor, ServingPrediction
from berth.predictor.hardware.catalogue import devices
from berth.predictor.hardware.unit import Unit, published, unit_named
from lab.llm.cases import models

SEVENTY = models()["meta-llama/Llama-3.1-70B"]
B200 = unit_named("b200-sxm-180gb")

MOST = (100_000, 100_000, 30_000)
"""Largest batch, prompt and answer that are drawn."""
SLACK = 1.0 + 1e-9
FRAMEWORKS = ("vllm", "trtllm", "sglang", "llama.cpp", "nobody-measured-it")


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
            int(math.exp(generator.uniform(0, math.log(most)))) for most in MOST
        )
        load = LlmLoad(
            batch, prompt, answer, float(generator.choice([4.0, 8.0, 16.0])),
            float(generator.choice([8.0, 16.0])), tensor, pipeline, data,
            int(generator.choice([1, min(model.experts, tensor * data)])),
            prefix_hit_rate=float(generator.choice([0.0, 0.0, 0.9])),
        )  # fmt: skip
        yield Draw(model, load, str(generator.choice(FRAMEWORKS)))


def beyond(draw: Draw, device: Unit, prediction: ServingPrediction) -> list[str]:
    """Return the bounds by the data sheets alone that a prediction exceeds."""
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
        "products": rate * 2 * inner <= peak * SLACK,
        "cache": answers * cache <= bandwidth * SLACK,
        "weights": answers * inner * bits <= bandwidth * max(resident, 1.0) * SLACK,
        "link": rate * sent <= link * load.data_parallel * load.pipeline_parallel * SLACK,
        "first token": 2 * inner * prompt <= prediction.ttft_s.low * peak * SLACK,
        "further token": inner * bits <= prediction.tpot_s.low * bandwidth * SLACK,
    }  # fmt: skip
    return [name for name, holds in bounds.items() if not holds]


@pytest.fixture(scope="module")
def predictor() -> LlmPredictor:
    return LlmPredictor.load()


def test_no_drawn_service_is_beyond_a_roof(predictor: LlmPredictor) -> None:
    places = [unit_named(d.name) for d in devices().values() if published(d)]
    drawn = draws(1)
    for _ in range(-(-2000 // len(places))):
        draw = next(drawn)
        found = predictor.predict(draw.model, draw.load, places, draw.framework)
        for device, prediction in zip(places, found, strict=True):
            assert not (prediction.fits and beyond(draw, device, prediction)), (draw, device.name)


def test_a_prediction_beyond_a_bound_is_found(predictor: LlmPredictor) -> None:
    draw = next(draws(0))
    (prediction,) = predictor.predict(draw.model, draw.load, [B200], draw.framework)
    faster = replace(prediction, throughput=prediction.throughput.scaled(1e9))
    assert "products" in beyond(draw, B200, faster)


@pytest.mark.parametrize("framework", ["trtllm", "vllm", "sglang"])
def test_a_longer_queue_serves_no_more_and_waits_longer(
    predictor: LlmPredictor, framework: str
) -> None:
    found = [
        predictor.predict(SEVENTY, LlmLoad(batch, 1000, 1000, 4.0, 8.0), [B200], framework)[0]
        for batch in (2048, 8192, 32768)
    ]
    rates = [one.throughput.mid for one in found]
    assert rates[1:] == pytest.approx([rates[0]] * 2, rel=0.05)
    waits = [one.ttft_s.mid for one in found]
    assert waits[0] * 3 < waits[1] < waits[2] / 3
    tokens = [one.tpot_s.mid for one in found]
    assert tokens[2] == pytest.approx(tokens[0], rel=0.05)


def test_a_limit_on_sequences_limits_tokens_a_second(predictor: LlmPredictor) -> None:
    def served(most: int) -> float:
        load = LlmLoad(256, 1000, 1000, 4.0, 8.0, most_sequences=most)
        return predictor.predict(SEVENTY, load, [B200], "trtllm")[0].throughput.mid

    assert served(8) < 0.5 * served(64) < served(256)
