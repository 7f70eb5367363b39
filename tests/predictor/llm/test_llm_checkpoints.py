"""The weights of published checkpoints take the bytes that their files have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model.config import from_mapping
from berth.predictor.families.language_model.load import LlmLoad, memory
from lab.llm.lm_counts import FORMS

LLAMA: dict[str, Any] = {
    "model_type": "llama", "vocab_size": 128256, "tie_word_embeddings": False,
    "num_key_value_heads": 8, "torch_dtype": "bfloat16",
}  # fmt: skip
OF_8B = {**LLAMA, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
         "num_attention_heads": 32}  # fmt: skip
OF_70B = {**LLAMA, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
          "num_attention_heads": 64}  # fmt: skip
OF_405B = {**LLAMA, "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126,
           "num_attention_heads": 128}  # fmt: skip
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
       "weight_block_size": [128, 128]}  # fmt: skip


def form(name: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(FORMS.read_text(encoding="utf-8"))[name]["config"]
    return config


def packed(bits: int, group: int, **more: Any) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": "int", "group_size": group, "strategy": "group"}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": None,
                                          "weights": weights}}, **more}  # fmt: skip


CHECKPOINTS: dict[str, tuple[float, dict[str, Any], dict[str, Any]]] = {
    # Gigabytes of the files of safetensors.
    "Llama 70B, compressed-tensors w4a16": (39.8, OF_70B, packed(4, 128)),
    "Llama 70B, AWQ": (39.77, OF_70B, {
        "quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True,
        "modules_to_not_convert": None}),
    "Llama 70B, NVFP4": (42.7, OF_70B, {
        "quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}),
    "Llama 405B, NVFP4": (235, OF_405B, {
        "quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}),
    "Llama 8B, bitsandbytes": (5.70, OF_8B, {
        "quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False,
        "bnb_4bit_use_double_quant": True, "llm_int8_skip_modules": None}),
    "Qwen2.5-32B, AWQ": (19.33, form("Qwen/Qwen2.5-32B-Instruct-AWQ"), {}),
    "Qwen2.5-7B, GPTQ": (5.58, form("Qwen/Qwen2.5-7B-Instruct"), {
        "quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}),
    "gpt-oss-20b, MXFP4": (13.76, form("openai/gpt-oss-20b"), {}),
    "Kimi K2 Thinking, INT4 experts": (594, form("moonshotai/Kimi-K2-Instruct"), packed(
        4, 32, ignore=["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
                       r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"])),
    "Qwen3-30B-A3B, FP8": (31.1, form("Qwen/Qwen3-30B-A3B"), {
        **FP8, "modules_to_not_convert": [
            "lm_head", *(f"model.layers.{i}.mlp.gate" for i in range(48))]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_weights_take_the_bytes_of_the_published_files(name: str) -> None:
    gigabytes, raw, quantised = CHECKPOINTS[name]
    changed = {"quantization_config": quantised} if quantised else {}
    model = from_mapping({**raw, **changed}, source="config.json", name=name)
    load = LlmLoad(1, 1, 1, weight_bits=model.weight_bits)
    assert memory(model, load).weights / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_modules_of_other_bits_are_counted_with_theirs() -> None:
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    plain = weight_bits(gptq)
    without = weight_bits({**gptq, "dynamic": {r"-:.*self_attn.*": {}}})
    eight = weight_bits({**gptq, "dynamic": {r"+:.*down_proj": {"bits": 8}}})
    one = {"model.layers.0.self_attn.q_proj": {"bits": 16}, "lm_head": {"bits": 16}}
    rounded = weight_bits({"quant_method": "auto-round", "bits": 4, "extra_config": one})
    assert plain < rounded < eight < without < 8


def weight_bits(quantised: dict[str, Any]) -> float:
    raw = {**OF_70B, "quantization_config": quantised}
    return from_mapping(raw, source="config.json", name="m").weight_bits


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Qwen/Qwen3-30B-A3B", 48 * 2 * 4 * 128), ("zai-org/GLM-4.5-Air", 46 * 2 * 8 * 128),
        ("MiniMaxAI/MiniMax-Text-01", 10 * 2 * 8 * 128),
        ("ibm-granite/granite-4.0-h-small", 4 * 2 * 8 * 128),
        ("ibm-granite/granite-4.0-micro", 40 * 2 * 8 * 64),
        ("tiiuae/Falcon-H1-7B-Instruct", 44 * 2 * 2 * 128),
        ("LiquidAI/LFM2-1.2B", 6 * 2 * 8 * 64), ("moonshotai/Kimi-K2-Instruct", 61 * 576),
        ("inclusionAI/Ling-mini-2.0", 20 * 2 * 4 * 128),
    ],
)  # fmt: skip
def test_the_cache_has_the_heads_size_that_the_file_says(name: str, values: int) -> None:
    model = from_mapping(form(name), source="config.json", name=name)
    assert model.cached_values(2) - model.cached_values(1) == values


@pytest.mark.parametrize(
    ("named", "more"),
    [("LlamaForCausalLMEagle3", {}), ("Eagle3DeepseekV2ForCausalLM", {}),
     ("EagleLlamaForCausalLM", {}), ("LlamaMedusaForCausalLM", {}), ("DeepSeekMTPModel", {}),
     ("DFlashDraftModel", {}), ("LlamaForCausalLM", {"draft_vocab_size": 32000}),
     ("LlamaForCausalLM", {"num_hidden_layers": 1})],
)  # fmt: skip
def test_drafts_and_heads_are_refused_by_their_class_whatever_else_they_say(
    named: str, more: dict[str, Any]
) -> None:
    raw = {**OF_8B, "architectures": [named], **more}
    with pytest.raises(DocumentError, match="proposes tokens to another model") as error:
        from_mapping(raw, source="config.json", name="m")
    assert "that it assists" in (error.value.hint or "")
