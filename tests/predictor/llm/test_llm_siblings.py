"""Unmeasured accelerators take their nearest CUDA sibling's effects; a case's quantities agree."""

from __future__ import annotations

import pytest
from toy_configs import LLAMA

from berth.predictor.core.prediction import Basis
from berth.predictor.families.language_model.config import from_mapping
from berth.predictor.families.language_model.load import Load
from berth.predictor.families.language_model.physics import sibling, stands_for
from berth.predictor.families.language_model.predictor import LlmPredictor, ServingPrediction
from berth.predictor.hardware import platforms
from berth.predictor.hardware.unit import units

MODEL = from_mapping(LLAMA, source="test", name="llama")
DEVICES = units(platforms.shipped())
MEASURED = ("a100-sxm-40gb", "h100-sxm-80gb", "mi250-128gb")


@pytest.fixture(scope="module")
def predictor() -> LlmPredictor:
    return LlmPredictor.load()


def served(predictor: LlmPredictor, load: Load, framework: str) -> dict[str, ServingPrediction]:
    found = predictor.predict(MODEL, load, list(DEVICES.values()), framework)
    return {one.device: one for one in found}


def test_the_nearest_cuda_accelerator_stands_for_an_unmeasured_one() -> None:
    assert sibling(DEVICES["h200-141gb"], MEASURED) == "h100-sxm-80gb"
    assert sibling(DEVICES["v100-pcie-32gb"], MEASURED) == "a100-sxm-40gb"
    assert sibling(DEVICES["mi210-64gb"], MEASURED) is None
    assert sibling(DEVICES["h200-141gb"], ("mi250-128gb",)) is None


def test_a_measured_accelerator_and_its_slices_keep_its_own_effects() -> None:
    assert stands_for(DEVICES["a100-40gb"], MEASURED) == "a100-sxm-40gb"
    assert stands_for(DEVICES["a100-mig-3g.20gb"], MEASURED) == "a100-sxm-40gb"
    assert stands_for(DEVICES["mi210-64gb"], MEASURED) == ""


@pytest.mark.parametrize("framework", ["vllm", "tensorrt-llm"])
@pytest.mark.parametrize("batch", [1, 16, 64])
def test_an_h200_is_not_predicted_slower_than_an_h100(
    predictor: LlmPredictor, framework: str, batch: int
) -> None:
    found = served(predictor, Load(batch, 1024, 128), framework)
    more, less = found["h200-141gb"], found["h100-80gb"]
    assert more.throughput.mid > less.throughput.mid
    assert (more.basis, more.abstained) == (Basis.PRIOR, None)
    assert found["h100-mig-3g.40gb"].throughput.mid < less.throughput.mid


@pytest.mark.parametrize("framework", ["vllm", "sglang", "tensorrt-llm", "nobody-measured-it"])
def test_tokens_a_second_agree_with_first_and_further_tokens(
    predictor: LlmPredictor, framework: str
) -> None:
    for load in (Load(1, 128, 1024), Load(32, 1024, 128), Load(8, 4096, 2)):
        for one in served(predictor, load, framework).values():
            tokens = load.batch * (load.input_tokens + load.output_tokens)
            seconds = one.ttft_s.mid + (load.output_tokens - 1) * one.tpot_s.mid
            assert tokens / seconds == pytest.approx(one.throughput.mid, rel=1e-6)
