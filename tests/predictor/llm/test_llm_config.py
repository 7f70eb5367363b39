"""A decoder's configuration is counted right in its family's own words, or refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples

from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model.config import LanguageModel, from_mapping, read_config
from lab.llm.cases import models

LLAMA: dict[str, Any] = {
    "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "vocab_size": 128256, "tie_word_embeddings": False,
}  # fmt: skip
MIXTRAL = {**LLAMA, "model_type": "mixtral"}
PUBLISHED = {
    # Billions, from the models' own cards.
    "gpt2": (0.124, {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12,
                     "vocab_size": 50257, "n_positions": 1024}),
    "falcon-7b": (6.92, {"model_type": "falcon", "num_hidden_layers": 32, "hidden_size": 4544,
                         "num_attention_heads": 71, "multi_query": True, "vocab_size": 65024}),
    "gpt-neox-20b": (20.55, {"model_type": "gpt_neox", "num_hidden_layers": 44,
                             "hidden_size": 6144, "num_attention_heads": 64,
                             "intermediate_size": 24576, "vocab_size": 50432}),
    "phi-2": (2.78, {"model_type": "phi", "num_hidden_layers": 32, "hidden_size": 2560,
                     "num_attention_heads": 32, "intermediate_size": 10240,
                     "vocab_size": 51200}),
    "gemma-2-9b": (9.24, {"model_type": "gemma2", "num_hidden_layers": 42, "hidden_size": 3584,
                          "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
                          "intermediate_size": 14336, "vocab_size": 256000,
                          "sliding_window": 4096}),
}  # fmt: skip
OF_DATA_SETS = {
    "meta-llama/Llama-2-7b-hf": 6.74, "meta-llama/Meta-Llama-3-8B": 8.03,
    "mistralai/Mistral-7B-v0.1": 7.24, "mistralai/Mixtral-8x7B-v0.1": 46.7,
    "Qwen/Qwen2-72B": 72.7, "facebook/opt-6.7b": 6.66, "bigscience/bloom-7b1": 7.07,
    "EleutherAI/gpt-j-6b": 6.05, "Deci/DeciLM-7B": 7.04, "deepseek-ai/DeepSeek-V3": 671.0,
    "openai/gpt-oss-120b": 116.8, "Qwen/Qwen3-235B-A22B-FP8": 235.0,
    "Qwen/Qwen3.5-397B-A17B": 397.0,
}  # fmt: skip


def read(raw: dict[str, Any]) -> LanguageModel:
    return from_mapping(raw, source="config.json", name="m")


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_of_the_models_card(name: str) -> None:
    billions, raw = PUBLISHED[name]
    assert read(raw).parameters / 1e9 == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize("name", OF_DATA_SETS)
def test_models_of_the_data_sets_have_their_published_sizes(name: str) -> None:
    assert models()[name].parameters / 1e9 == pytest.approx(OF_DATA_SETS[name], rel=0.01)


@pytest.mark.parametrize(
    ("name", "billions"),
    [("mistralai/Mixtral-8x7B-v0.1", 12.9), ("deepseek-ai/DeepSeek-V3", 37.0),
     ("openai/gpt-oss-120b", 5.1)],
)  # fmt: skip
def test_a_token_of_a_mixture_passes_only_its_experts(name: str, billions: float) -> None:
    assert models()[name].active_parameters / 1e9 == pytest.approx(billions, rel=0.02)


def test_grouped_heads_cache_a_quarter_of_what_all_heads_do() -> None:
    grouped = read(LLAMA)
    every = read({**LLAMA, "num_key_value_heads": 32})
    assert every.cached_values(100) == 4 * grouped.cached_values(100)
    assert grouped.cached_values(1) == 2 * 32 * 8 * 128


def test_one_latent_a_layer_is_cached_with_latent_attention() -> None:
    deepseek = models()["deepseek-ai/DeepSeek-V3"]
    assert deepseek.cached_values(10) == 61 * (512 + 64) * 10
    assert deepseek.latent_attention


def test_a_window_bounds_the_cache() -> None:
    mistral = models()["mistralai/Mistral-7B-v0.1"]
    assert mistral.cached_values(4096) == mistral.cached_values(100_000)
    half = models()["openai/gpt-oss-120b"]
    assert half.cached_values(1_000) < half.cached_values(2_000)
    assert half.cached_values(1_000) < 18 * 2 * 8 * 64 * 2 * 1_000
    qwen = {**LLAMA, "model_type": "qwen2", "sliding_window": 10, "max_window_layers": 0}
    unused = read({**qwen, "use_sliding_window": False})
    assert unused.cached_values(100) == read(LLAMA).cached_values(100)
    assert read({**qwen, "use_sliding_window": True}).cached_values(100) < unused.cached_values(50)


def test_linear_attention_keeps_a_state_and_no_cache() -> None:
    qwen = models()["Qwen/Qwen3.5-397B-A17B"]
    convolved = 4 * (2 * 16 * 128 + 64 * 128)
    assert qwen.state_values == 45 * (64 * 128 * 128 + convolved)
    assert qwen.cached_values(2) - qwen.cached_values(1) == 15 * 2 * 2 * 256


@pytest.mark.parametrize(
    ("extra", "bits"),
    [({}, 16), ({"torch_dtype": "float32"}, 32), ({"quantization_config": {"bits": 4}}, 4),
     ({"quantization_config": {"quant_method": "fp8"}}, 8),
     ({"quantization_config": {"load_in_4bit": True}}, 4)],
)  # fmt: skip
def test_the_checkpoints_bits_are_read(extra: dict[str, Any], bits: int) -> None:
    model = read({**LLAMA, **extra})
    assert bits <= model.weight_bits <= bits * 1.15  # with scales


def test_a_vision_models_text_part_is_what_counts() -> None:
    nested = {"model_type": "llava", "text_config": {**LLAMA}, "vision_config": {"hidden_size": 9}}
    model = read(nested)
    assert model.parameters - model.tower_parameters == read(LLAMA).parameters
    assert model.towers.startswith("vision")
    assert model.active_parameters == read(LLAMA).active_parameters


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "encoder": ({"model_type": "bert"}, "not a decoder"),
    "encoder-decoder": ({**LLAMA, "is_encoder_decoder": True}, "not a decoder"),
    "unheard of": ({**LLAMA, "model_type": "novel"}, "cannot count"),
    "two families": ({**LLAMA, "num_local_experts": 8}, "does not know of the family"),
    "not finite": ({**LLAMA, "vocab_size": "Infinity"}, "whole number"),
    "nothing": ({"x": 1}, "neither model_type"),
    "negative": ({**LLAMA, "hidden_size": -1}, "whole number"),
    "text": ({**LLAMA, "vocab_size": "many"}, "whole number"),
    "true": ({**LLAMA, "num_hidden_layers": True}, "whole number"),
    "fraction": ({**LLAMA, "num_hidden_layers": 1.5}, "whole number"),
    "huge": ({**LLAMA, "num_hidden_layers": 10**9}, "whole number"),
    "more kv heads": ({**LLAMA, "num_key_value_heads": 64}, "more than"),
    "uneven": ({**LLAMA, "num_attention_heads": 33}, "does not divide"),
    "more chosen": ({**MIXTRAL, "num_local_experts": 4, "num_experts_per_tok": 5}, "more than"),
    "list": ({**LLAMA, "intermediate_size": [10**400]}, "is a list"),
    "kv list": ({**LLAMA, "num_key_value_heads_per_layer": [1, 2]}, "does not know"),
    "too big": ({**LLAMA, "hidden_size": 1_000_000, "intermediate_size": 10_000_000,
                 "num_attention_heads": 1, "num_key_value_heads": 1}, "too many"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_an_odd_configuration_is_one_sentence(name: str) -> None:
    raw, said = BAD[name]
    with pytest.raises(DocumentError) as raised:
        read(raw)
    assert said in raised.value.message
    assert "\n" not in raised.value.message
    assert raised.value.message.startswith("config.json")


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
KEYS = sorted({k for m in (LLAMA, *(raw for _, raw in PUBLISHED.values())) for k in m} | {
    "kv_lora_rank", "layer_types", "num_local_experts", "num_experts_per_tok", "text_config",
    "quantization_config", "first_k_dense_replace", "mlp_only_layers", "sliding_window_pattern",
    "n_shared_experts", "linear_num_key_heads", "num_key_value_heads_per_layer", "architectures",
})  # fmt: skip


@settings(max_examples=examples(400), deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), ANY, max_size=4))
def test_whatever_a_key_holds_it_is_a_model_or_one_sentence(changed: dict[str, Any]) -> None:
    try:
        found = read({**LLAMA, **changed})
    except DocumentError as error:
        assert "\n" not in error.message
    else:
        assert found.parameters > 0
        assert found.cached_values(100) >= 0


@pytest.mark.parametrize(
    "text", ["", "[1]", "{", '{"model_type": NaN}', "\x00", "null", "GGUF" + 8 * "\x00"]
)
def test_what_is_not_json_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(DocumentError, match=r"config\.json"):
        read_config(path)


def test_a_key_with_two_values_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA)[:-1] + ', "hidden_size": 4096, "vocab_size": 7}')
    with pytest.raises(DocumentError, match="vocab_size: is there twice"):
        read_config(path)


def test_a_file_is_named_after_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "my-model" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(LLAMA))
    assert read_config(path).name == "my-model"
