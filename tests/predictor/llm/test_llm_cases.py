"""The small inputs that were once answered wrongly, where they are present, are answered right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from berth.pilot.errors import DocumentError
from berth.predictor.core.prediction import Basis
from berth.predictor.families.language_model.config import read_config
from berth.predictor.families.language_model.load import LlmLoad, memory
from berth.predictor.families.language_model.predictor import LlmPredictor, ServingPrediction
from berth.predictor.hardware import platforms
from berth.predictor.hardware.unit import get_unit, units
from lab import datasets

CASES = datasets.folder().parent / "cases" / "models"
pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason=f"needs {CASES}: set {datasets.FOLDER_VARIABLE}"
)
SINGLE = LlmLoad(1, 262_016, 128)


def served(name: str, load: LlmLoad, framework: str, *places: str) -> list[ServingPrediction]:
    known = units(platforms.shipped())
    model = read_config(CASES / name)
    load = replace(load, weight_bits=model.weight_bits)
    chosen = [get_unit(place, known) for place in places]
    return LlmPredictor.load().predict(model, load, chosen, framework)


@pytest.mark.parametrize("name", ["draft_config.json", "draft_config_after_hint.json"])
def test_drafts_are_refused(name: str) -> None:
    with pytest.raises(DocumentError, match="proposes tokens to another model"):
        read_config(CASES / name)


def test_experts_in_four_bits_count_as_such() -> None:
    model = read_config(CASES / "experts_in_fp4.json")
    load = LlmLoad(1, 128, 128, weight_bits=model.weight_bits)
    assert 155e9 < memory(model, load).weights < 161e9


def test_no_model_is_split_over_slices() -> None:
    load = LlmLoad(16, 1000, 500, tensor_parallel=4)
    (split,) = served("llama8b.json", load, "vllm", "h100-mig-3g.40gb")
    assert "a program uses one slice" in str(split.abstained)


def test_smaller_chunks_need_less_memory() -> None:
    model = read_config(CASES / "llama8b.json")
    sizes = [
        memory(model, replace(SINGLE, chunk_tokens=chunk)).activations
        for chunk in (2048, 8192, 131_072)
    ]
    assert sizes == sorted(set(sizes))


@pytest.mark.parametrize("name", ["qwen36_27b", "gemma3_27b"])
def test_long_contexts_fit_where_prompts_are_cut_into_chunks(name: str) -> None:
    (one,) = served(f"{name}/config.json", replace(SINGLE, input_tokens=127_872), "vllm",
                    "h100-80gb")  # fmt: skip
    assert one.fits


def test_old_software_is_not_calibrated_and_its_interval_is_wide() -> None:
    load = LlmLoad(64, 1000, 1000)
    old, new = served("llama8b.json", load, "vllm", "mi300x-192gb", "h100-80gb")
    assert {old.basis, new.basis} == {Basis.SCALED}
    assert old.throughput.high > 0.5 * new.throughput.mid


def test_a_sibling_is_within_the_interval_of_the_level_device() -> None:
    load = LlmLoad(32, 1024, 1024, tensor_parallel=8)
    sibling, level = served("mla_moe.json", load, "sglang", "mi355x-288gb", "b200-sxm-180gb")
    assert sibling.throughput.low < level.throughput.mid < sibling.throughput.high
