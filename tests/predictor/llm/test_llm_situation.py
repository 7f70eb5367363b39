"""A case is as similar to the measurements as its precision, load, size and version say."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from toy_configs import LLAMA

from berth.predictor.families.language_model.candidates import Novelty
from berth.predictor.families.language_model.config import from_mapping
from berth.predictor.families.language_model.framework import named, release
from berth.predictor.families.language_model.load import LlmLoad
from berth.predictor.families.language_model.physics import LlmCase
from berth.predictor.families.language_model.situation import (
    TOLERANCE,
    Similarity,
    Situation,
    cells_of,
    similarity_of,
)
from berth.predictor.hardware import platforms
from berth.predictor.hardware.unit import unit_named, units

MODEL = from_mapping(LLAMA, source="test", name="llama")
OTHER = from_mapping({**LLAMA, "vocab_size": 32_000}, source="test", name="other")
LARGE = from_mapping({**LLAMA, "num_hidden_layers": 320}, source="test", name="large")
H100, H200 = unit_named("h100-sxm-80gb"), unit_named("h200-sxm-141gb")
SLICE = units(platforms.shipped())["h100-mig-3g.40gb"]
SHORT, LONG = LlmLoad(4, 128, 128), LlmLoad(64, 2048, 2048)
MEASURED = cells_of([
    (LlmCase(MODEL, SHORT, H100), "vllm", "0.6.1"),
    (LlmCase(MODEL, LONG, H100), "vllm", "0.9.2"),
    (LlmCase(OTHER, LONG, H200), "vllm", "0.9.2"),
    (LlmCase(MODEL, LONG, H200), "sglang", ""),
])  # fmt: skip


def at(case: LlmCase, framework: str = "vllm", version: str = "") -> Similarity:
    return similarity_of(case, framework, MEASURED, version)


INSIDE = LlmLoad(16, 512, 512)
NEW = replace(MODEL, vocabulary=99_999)
LARGE_ONE = replace(LONG, batch=4)


@pytest.mark.parametrize(("case", "framework", "expected"), [
    (LlmCase(MODEL, INSIDE, H100), "vllm",
     Similarity(Situation.BLOCK, "h100-sxm-80gb", True, 0, 0)),
    (LlmCase(OTHER, INSIDE, H100), "vllm", Similarity(Situation.PAIR, "h100-sxm-80gb", True, 0, 0)),
    (LlmCase(NEW, INSIDE, H100), "vllm", Similarity(Situation.MODEL, "h100-sxm-80gb", True, 0, 0)),
    (LlmCase(MODEL, LONG, unit_named("a100-sxm-40gb")), "vllm",
     Similarity(Situation.BLOCK, "h100-sxm-80gb", False, 0, 0)),
    (LlmCase(NEW, LONG, SLICE), "vllm",
     Similarity(Situation.MODEL, "h100-sxm-80gb", False, 0, 0)),
    (LlmCase(MODEL, replace(INSIDE, weight_bits=8.0), H100), "vllm",
     Similarity(Situation.UNLIKE, "h100-sxm-80gb", True, 0, 0)),
    (LlmCase(LARGE, LARGE_ONE, H100), "vllm",
     Similarity(Situation.UNLIKE, "h100-sxm-80gb", True, 0, 0)),
    (LlmCase(replace(OTHER, experts=8), LARGE_ONE, H100), "vllm",
     Similarity(Situation.UNLIKE, "h100-sxm-80gb", True, 0, 0)),
    (LlmCase(MODEL, LONG, H100), "sglang",
     Similarity(Situation.BLOCK, "h200-sxm-141gb", False, 0, 0)),
    (LlmCase(MODEL, LONG, unit_named("mi300x-192gb")), "vllm",
     Similarity(Situation.APART, "", False, 0, 0)),
    (LlmCase(MODEL, LONG, H100), "llama.cpp",
     Similarity(Situation.APART, "h100-sxm-80gb", True, 0, 0)),
    (LlmCase(MODEL, LONG, H100), "trtllm",
     Similarity(Situation.BLOCK, "h100-sxm-80gb", True, 0, 0, "vllm")),
    (LlmCase(NEW, LONG, H200), "trtllm",
     Similarity(Situation.MODEL, "h200-sxm-141gb", True, 0, 0, "vllm")),
], ids=["model", "model elsewhere", "new model", "relative", "slice", "bits", "size", "kind",
        "framework elsewhere", "no relative", "no framework", "server", "server and model"],
)  # fmt: skip
def test_a_case_is_as_similar_as_what_was_measured(
    case: LlmCase, framework: str, expected: Similarity
) -> None:
    plain = replace(at(case, framework), lengths=0, sequences=0, novelty=Novelty.NOTHING)
    assert plain == expected


MIXTURE = replace(OTHER, experts=8, vocabulary=5)


@pytest.mark.parametrize(("case", "version", "novelty"), [
    (LlmCase(MODEL, INSIDE, H100), "", Novelty.NOTHING),
    (LlmCase(MODEL, INSIDE, H100), "0.9.2", Novelty.NOTHING),
    (LlmCase(MODEL, INSIDE, H100), "0.19", Novelty.VERSION),
    (LlmCase(MODEL, LlmLoad(64, 32_000, 2048), H100), "", Novelty.LOAD),
    (LlmCase(NEW, INSIDE, H100), "", Novelty.MODEL),
    (LlmCase(MIXTURE, INSIDE, H100), "", Novelty.EXPERTS),
    (LlmCase(NEW, INSIDE, unit_named("a100-sxm-40gb")), "0.19", Novelty.DEVICE),
    (LlmCase(NEW, INSIDE, unit_named("mi300x-192gb")), "", Novelty.MAKER),
])  # fmt: skip
def test_of_several_new_things_the_hardest_counts(
    case: LlmCase, version: str, novelty: Novelty
) -> None:
    found = at(case, version=version)
    assert found.novelty is novelty
    assert found.version_known is (version == "0.9.2")


@pytest.mark.parametrize(
    ("load", "factors"),
    [
        (LlmLoad(64, 2048, 16), ((128, 8), ())),
        (LlmLoad(64, 2048, 256), ((8,), ())),
        (LlmLoad(64, 8192, 8192), ((4, 4), ())),
        (LlmLoad(1024, 128, 128), ((), (16,))),
        (replace(LONG, batch=512, tensor_parallel=8), ((), (8,))),
    ],
    ids=["output and ratio", "length ratio", "lengths", "batch", "GPUs"],
)
def test_a_load_is_as_far_as_its_factors_beyond_the_measured_ones(
    load: LlmLoad, factors: tuple[tuple[float, ...], tuple[float, ...]]
) -> None:
    similarity = at(LlmCase(MODEL, load, H100))
    assert similarity.situation is Situation.BLOCK
    lengths, sequences = (
        math.hypot(*(math.log(factor / TOLERANCE) for factor in part)) for part in factors
    )
    assert (similarity.lengths, similarity.sequences) == pytest.approx(
        (lengths, sequences), rel=1e-3
    )


def test_prompts_that_were_cached_before_change_the_ratio() -> None:
    cached = replace(LONG, prefix_hit_rate=0.9)
    assert at(LlmCase(MODEL, cached, H100)).lengths == pytest.approx(
        math.log(10 / TOLERANCE), rel=1e-3
    )


def test_requests_that_wait_do_not_change_the_situation() -> None:
    crowd = LlmLoad(1_000_000, 2048, 2048, most_sequences=64)
    assert at(LlmCase(MODEL, crowd, H100)).is_inside


@pytest.mark.parametrize(("version", "expected"), [
    ("0.6.1", Situation.BLOCK), ("0.8.5", Situation.BLOCK), ("0.19.0", Situation.UNLIKE),
    ("0.5", Situation.UNLIKE),
])  # fmt: skip
def test_a_version_outside_the_measured_ones_is_unlike(version: str, expected: Situation) -> None:
    assert at(LlmCase(MODEL, LONG, H100), version=version).situation is expected


def test_a_server_that_was_measured_on_the_accelerator_stands_for_another() -> None:
    only = [cell for cell in MEASURED if (cell.accelerator, cell.framework) != (
        "h200-sxm-141gb", "vllm")]  # fmt: skip
    for name, server in (("h100-sxm-80gb", "vllm"), ("h200-sxm-141gb", "sglang")):
        case = LlmCase(MODEL, LONG, unit_named(name))
        assert similarity_of(case, "deepspeed-mii", only, "9.9").framework == server


def test_no_published_version_vouches_for_none() -> None:
    assert at(LlmCase(MODEL, LONG, H200), "sglang", "0.5.9").situation is Situation.UNLIKE


@pytest.mark.parametrize(("text", "expected"), [
    ("vLLM", ("vllm", "")), ("vllm==0.9.2", ("vllm", "0.9.2")),
    ("vLLM v0.19.0", ("vllm", "0.19.0")),
    ("TensorRT-LLM", ("trtllm", "")), ("tensorrt_llm 1.2", ("trtllm", "1.2")),
    ("trt-llm", ("trtllm", "")), ("SGLang:v0.5.9-cu130", ("sglang", "0.5.9-cu130")),
    ("llama.cpp", ("llama.cpp", "")), ("llama-cpp", ("llama.cpp", "")), ("DeepSpeed-MII",
     ("deepspeed-mii", "")), ("nobody-measured-it", ("nobody-measured-it", "")), ("", ("", "")),
])  # fmt: skip
def test_frameworks_are_read_as_people_write_them(text: str, expected: Any) -> None:
    assert named(text) == expected


def test_a_release_is_two_numbers() -> None:
    assert release("1.2.0rc6.post2") == (1, 2)
    assert release("nightly") == (0, 0)
