"""Unmeasured accelerators take their nearest relative's measurements; a case's quantities agree."""

from __future__ import annotations

import pytest
from toy_configs import LLAMA

from berth.pilot.errors import UsageError
from berth.predictor.core.prediction import Basis
from berth.predictor.families.language_model.config import from_mapping
from berth.predictor.families.language_model.load import LlmLoad
from berth.predictor.families.language_model.physics import LlmCase, nearest
from berth.predictor.families.language_model.predictor import LlmPredictor, ServingPrediction
from berth.predictor.families.language_model.situation import cells_of, stands_for
from berth.predictor.hardware import platforms
from berth.predictor.hardware.unit import units

MODEL = from_mapping(LLAMA, source="test", name="llama")
DEVICES = units(platforms.shipped())


@pytest.fixture(scope="module")
def predictor() -> LlmPredictor:
    return LlmPredictor.load()


def served(predictor: LlmPredictor, load: LlmLoad, framework: str) -> dict[str, ServingPrediction]:
    found = predictor.predict(MODEL, load, list(DEVICES.values()), framework)
    return {one.device: one for one in found}


MEASURED = ("a100-sxm-40gb", "h100-sxm-80gb", "mi250-128gb")


def test_the_nearest_accelerator_of_the_same_software_stands_for_an_unmeasured_one() -> None:
    assert nearest("h200-sxm-141gb", MEASURED) == "h100-sxm-80gb"
    assert nearest("v100-pcie-32gb", MEASURED) == "a100-sxm-40gb"
    assert nearest("mi210-64gb", MEASURED) == "mi250-128gb"
    assert nearest("h200-sxm-141gb", ("mi250-128gb",)) is None


def test_the_same_model_elsewhere_comes_before_a_nearer_accelerator() -> None:
    load = LlmLoad(8, 1024, 128)

    def case(name: str) -> LlmCase:
        return LlmCase(MODEL, load, DEVICES[name])

    other = from_mapping({**LLAMA, "num_hidden_layers": 2}, source="test", name="other")
    cells = cells_of([
        (case("a100-40gb"), "vllm", ""),
        (LlmCase(other, load, DEVICES["h100-80gb"]), "vllm", ""),
    ])  # fmt: skip
    assert stands_for(case("h200-141gb"), "vllm", cells) == "a100-sxm-40gb"
    assert stands_for(case("h200-141gb"), "sglang", cells) == "h100-sxm-80gb"
    assert stands_for(case("a100-mig-3g.20gb"), "vllm", cells) == "a100-sxm-40gb"
    assert stands_for(case("mi210-64gb"), "vllm", cells) == ""


@pytest.mark.parametrize("framework", ["vllm", "tensorrt-llm"])
@pytest.mark.parametrize("batch", [1, 16, 64])
def test_an_h200_is_not_predicted_slower_than_an_h100(
    predictor: LlmPredictor, framework: str, batch: int
) -> None:
    found = served(predictor, LlmLoad(batch, 1024, 128), framework)
    more, less = found["h200-141gb"], found["h100-80gb"]
    # Its own measurements and its relative's meet here: they are 1 % apart.
    assert more.throughput.mid > 0.98 * less.throughput.mid
    assert more.basis is not Basis.CALIBRATED
    assert found["h100-mig-3g.40gb"].throughput.mid < less.throughput.mid


@pytest.mark.parametrize("framework", ["vllm", "sglang", "tensorrt-llm", "nobody-measured-it"])
def test_tokens_a_second_agree_with_first_and_further_tokens(
    predictor: LlmPredictor, framework: str
) -> None:
    for load in (LlmLoad(1, 128, 1024), LlmLoad(32, 1024, 128), LlmLoad(8, 4096, 2)):
        for one in served(predictor, load, framework).values():
            tokens = load.batch * (load.input_tokens + load.output_tokens)
            seconds = one.ttft_s.mid + (load.output_tokens - 1) * one.tpot_s.mid
            assert tokens / seconds == pytest.approx(one.throughput.mid, rel=1e-6)


def test_heads_that_do_not_divide_are_refused(predictor: LlmPredictor) -> None:
    load, place = LlmLoad(1, 128, 128, tensor_parallel=3), [DEVICES["h100-80gb"]]
    with pytest.raises(UsageError, match="cannot split 32 heads over 3"):
        predictor.predict(MODEL, load, place, "vLLM 0.9")
    assert predictor.predict(MODEL, load, place, "llama.cpp")
