"""No prediction is beyond the hardware; requests that wait add no tokens a second."""

from __future__ import annotations

import pytest

from berth.predictor.families.language_model.load import LlmLoad
from berth.predictor.families.language_model.predictor import LlmPredictor
from berth.predictor.hardware.unit import unit_named
from lab.llm.beyond_roof import beyond, count_beyond, draws
from lab.llm.cases import models

SEVENTY = models()["meta-llama/Llama-3.1-70B"]
B200 = unit_named("b200-sxm-180gb")


@pytest.fixture(scope="module")
def predictor() -> LlmPredictor:
    return LlmPredictor.load()


def test_no_drawn_service_is_beyond_a_roof() -> None:
    made, counts = count_beyond(2000, seed=1)
    assert made >= 2000
    assert not counts


def test_a_prediction_beyond_a_bound_is_found(predictor: LlmPredictor) -> None:
    draw = next(draws(0))
    (prediction,) = predictor.predict(draw.model, draw.load, [B200], draw.framework)
    from dataclasses import replace

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
