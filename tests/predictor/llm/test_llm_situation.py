"""A case is as similar to the measurements as its precision, load, size and version say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from toy_configs import LLAMA

from berth.predictor.families.language_model.config import from_mapping
from berth.predictor.families.language_model.framework import named, release
from berth.predictor.families.language_model.load import Load
from berth.predictor.families.language_model.physics import Case
from berth.predictor.families.language_model.situation import Situation, cells_of, situation_of
from berth.predictor.hardware.unit import unit_named

MODEL = from_mapping(LLAMA, source="test", name="llama")
OTHER = from_mapping({**LLAMA, "vocab_size": 32_000}, source="test", name="other")
LARGE = from_mapping({**LLAMA, "num_hidden_layers": 320}, source="test", name="large")
H100, H200 = unit_named("h100-sxm-80gb"), unit_named("h200-sxm-141gb")
SHORT, LONG = Load(4, 128, 128), Load(64, 2048, 2048)
MEASURED = cells_of([
    (Case(MODEL, SHORT, H100), "vllm", "0.6.1"),
    (Case(MODEL, LONG, H100), "vllm", "0.9.2"),
    (Case(OTHER, LONG, H200), "vllm", "0.9.2"),
    (Case(MODEL, LONG, H200), "sglang", ""),
])  # fmt: skip


def at(case: Case, framework: str = "vllm", version: str = "") -> Situation:
    return situation_of(case, framework, MEASURED, version)


def test_what_was_measured_is_known() -> None:
    assert at(Case(MODEL, Load(16, 512, 512), H100)) is Situation.BLOCK
    assert at(Case(OTHER, Load(16, 512, 512), H100)) is Situation.PAIR
    new = replace(MODEL, vocabulary=99_999)
    assert at(Case(new, Load(16, 512, 512), H100)) is Situation.MODEL
    assert at(Case(MODEL, LONG, unit_named("a100-sxm-40gb"))) is Situation.RELATIVE
    assert at(Case(MODEL, Load(64, 2048, 16), unit_named("a100-sxm-40gb"))) is Situation.NEW
    assert at(Case(MODEL, LONG, unit_named("mi300x-192gb"))) is Situation.NEW
    assert at(Case(MODEL, LONG, H100), "llama.cpp") is Situation.NEW


@pytest.mark.parametrize(
    "load",
    [
        replace(LONG, weight_bits=8.0),
        Load(64, 2048, 16),
        Load(64, 8192, 8192),
        Load(1024, 128, 128),
        replace(LONG, batch=512, tensor_parallel=8),
    ],
    ids=["bits", "length ratio", "lengths", "batch", "GPUs"],
)
def test_a_load_beyond_the_measured_ones_is_apart(load: Load) -> None:
    assert at(Case(MODEL, load, H100)) is Situation.APART


def test_a_model_of_another_size_or_kind_is_apart() -> None:
    load = replace(LONG, batch=4)
    assert at(Case(LARGE, load, H100)) is Situation.APART
    assert at(Case(replace(OTHER, experts=8), load, H100)) is Situation.APART


def test_requests_that_wait_do_not_change_the_situation() -> None:
    crowd = Load(1_000_000, 2048, 2048, most_sequences=64)
    assert at(Case(MODEL, crowd, H100)) is Situation.BLOCK


@pytest.mark.parametrize(("version", "expected"), [
    ("0.6.1", Situation.BLOCK), ("0.8.5", Situation.BLOCK), ("0.19.0", Situation.APART),
    ("0.5", Situation.APART),
])  # fmt: skip
def test_a_version_outside_the_measured_ones_is_apart(version: str, expected: Situation) -> None:
    assert at(Case(MODEL, LONG, H100), version=version) is expected


def test_no_published_version_vouches_for_none() -> None:
    assert at(Case(MODEL, LONG, H200), "sglang", "0.5.9") is Situation.APART


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
