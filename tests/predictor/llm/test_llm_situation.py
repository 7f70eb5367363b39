"""A case is as similar to the measurements as its precision, load, size and version say."""

from __future__ import annotations

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
    (LlmCase(MODEL, INSIDE, H100), "vllm", Similarity(Novelty.NOTHING, "h100-sxm-80gb", True)),
    (LlmCase(OTHER, INSIDE, H100), "vllm", Similarity(Novelty.COMBINATION, "h100-sxm-80gb", True)),
    (LlmCase(NEW, INSIDE, H100), "vllm", Similarity(Novelty.MODEL, "h100-sxm-80gb", True)),
    (LlmCase(MODEL, LONG, unit_named("a100-sxm-40gb")), "vllm",
     Similarity(Novelty.DEVICE, "h100-sxm-80gb", False)),
    (LlmCase(NEW, LONG, SLICE), "vllm", Similarity(Novelty.DEVICE, "h100-sxm-80gb", False)),
    (LlmCase(MODEL, replace(INSIDE, weight_bits=8.0), H100), "vllm",
     Similarity(Novelty.KIND, "h100-sxm-80gb", True, alike=False)),
    (LlmCase(LARGE, LARGE_ONE, H100), "vllm",
     Similarity(Novelty.MODEL, "h100-sxm-80gb", True, alike=False)),
    (LlmCase(replace(OTHER, experts=8), LARGE_ONE, H100), "vllm",
     Similarity(Novelty.EXPERTS, "h100-sxm-80gb", True, alike=False)),
    (LlmCase(MODEL, LONG, H100), "sglang", Similarity(Novelty.DEVICE, "h200-sxm-141gb", False)),
    (LlmCase(MODEL, LONG, unit_named("mi300x-192gb")), "vllm",
     Similarity(Novelty.MAKER, "", False, alike=False, apart=True)),
    (LlmCase(MODEL, LONG, H100), "llama.cpp",
     Similarity(Novelty.MODEL, "h100-sxm-80gb", True, alike=False, apart=True)),
    (LlmCase(MODEL, LONG, H100), "trtllm",
     Similarity(Novelty.SERVER, "h100-sxm-80gb", True, framework="vllm")),
    (LlmCase(NEW, LONG, H200), "trtllm",
     Similarity(Novelty.MODEL, "h200-sxm-141gb", True, framework="vllm")),
], ids=["model", "model elsewhere", "new model", "relative", "slice", "bits", "size", "kind",
        "framework elsewhere", "no relative", "no framework", "server", "server and model"],
)  # fmt: skip
def test_a_case_is_as_similar_as_what_was_measured(
    case: LlmCase, framework: str, expected: Similarity
) -> None:
    assert replace(at(case, framework), outside=False) == expected


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
    ("load", "outside"),
    [
        (LlmLoad(64, 2048, 16), True),
        (LlmLoad(64, 2048, 256), True),
        (LlmLoad(64, 8192, 8192), True),
        (LlmLoad(1024, 128, 128), True),
        (replace(LONG, batch=512, tensor_parallel=8), True),
        (replace(LONG, prefix_hit_rate=0.9), True),
        (LlmLoad(64, int(2048 * TOLERANCE), 2048), False),
        (LlmLoad(1_000_000, 2048, 2048, most_sequences=64), False),
    ],
    ids=["output and ratio", "length ratio", "lengths", "batch", "GPUs", "cached prompts",
         "a little longer", "requests that wait"],
)  # fmt: skip
def test_a_load_is_new_by_more_than_the_tolerance(load: LlmLoad, outside: bool) -> None:
    found = at(LlmCase(MODEL, load, H100))
    assert found.outside is outside
    assert found.novelty is (Novelty.LOAD if outside else Novelty.NOTHING)


@pytest.mark.parametrize(("version", "alike"), [
    ("0.6.1", True), ("0.8.5", True), ("0.9", True), ("0.9.30", False), ("0.19.0", False),
    ("0.5", False),
])  # fmt: skip
def test_a_version_outside_the_measured_ones_is_unlike(version: str, alike: bool) -> None:
    assert at(LlmCase(MODEL, LONG, H100), version=version).alike is alike


def test_a_server_that_was_measured_on_the_accelerator_stands_for_another() -> None:
    only = [cell for cell in MEASURED if (cell.accelerator, cell.framework) != (
        "h200-sxm-141gb", "vllm")]  # fmt: skip
    for name, server in (("h100-sxm-80gb", "vllm"), ("h200-sxm-141gb", "sglang")):
        case = LlmCase(MODEL, LONG, unit_named(name))
        assert similarity_of(case, "deepspeed-mii", only, "9.9").framework == server


def test_a_nightly_build_says_nothing_of_later_versions() -> None:
    cells = cells_of([
        (LlmCase(MODEL, LONG, H100), "sglang", version) for version in ("0.5.9", "nightly-2026021")
    ])  # fmt: skip
    for version, known in (("0.5.9", True), ("0.5.12", False), ("2.0", False)):
        case = LlmCase(MODEL, LONG, H100)
        assert similarity_of(case, "sglang", cells, version).version_known is known


def test_no_published_version_vouches_for_none() -> None:
    assert at(LlmCase(MODEL, LONG, H200), "sglang", "0.5.9").novelty is Novelty.VERSION


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


def test_a_release_is_the_numbers_that_a_version_begins_with() -> None:
    assert release("1.2.0rc6.post2") == (1, 2, 0)
    assert release("0.17") == (0, 17)
    assert release("nightly-dev-20260216-d3bae71e") == ()
