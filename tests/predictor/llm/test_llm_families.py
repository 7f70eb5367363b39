"""Published forms of configurations are counted by their own family's class, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model.config import LanguageModel, from_mapping, read_config
from berth.predictor.families.language_model.weights import product_bits

DENSE: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
    "num_attention_heads": 64, "num_key_value_heads": 8, "num_hidden_layers": 80,
    "vocab_size": 128256, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
FORMS: dict[str, tuple[float, float, dict[str, Any]]] = {
    # Billions of parameters of the models' cards, cached values per token; keys of their files.
    "DBRX": (131.6, 2 * 8 * 128 * 40, {
        "model_type": "dbrx", "d_model": 6144, "n_layers": 40, "n_heads": 48, "max_seq_len": 32768,
        "vocab_size": 100352, "tie_word_embeddings": False, "attn_config": {"kv_n_heads": 8},
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}}),
    "Qwen-7B": (7.72, 2 * 4096 * 32, {
        "model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016,
        "num_hidden_layers": 32, "num_attention_heads": 32, "kv_channels": 128,
        "vocab_size": 151936, "tie_word_embeddings": False}),
    "ChatGLM3-6B": (6.24, 2 * 2 * 128 * 28, {
        "model_type": "chatglm", "num_layers": 28, "hidden_size": 4096, "kv_channels": 128,
        "num_attention_heads": 32, "multi_query_attention": True, "multi_query_group_num": 2,
        "ffn_hidden_size": 13696, "padded_vocab_size": 65024, "seq_length": 8192,
        "add_qkv_bias": True}),
    "Nemotron 3 Nano": (31.6, 2 * 2 * 128 * 6, {
        "model_type": "nemotron_h", "hidden_size": 2688, "num_hidden_layers": 52,
        "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
        "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
        "intermediate_size": 1856, "moe_intermediate_size": 1856, "n_routed_experts": 128,
        "moe_shared_expert_intermediate_size": 3712, "num_experts_per_tok": 6,
        "n_shared_experts": 1, "mamba_num_heads": 64, "vocab_size": 131072,
        "tie_word_embeddings": False, "time_step_limit": [0.0, "Infinity"]}),
    "MiMo-V2-Flash": (308.8, (4 * 9 + 8 * 39) * 320, {
        "model_type": "mimo_v2_flash", "hidden_size": 4096, "intermediate_size": 16384,
        "num_hidden_layers": 48, "num_attention_heads": 64, "num_key_value_heads": 4,
        "head_dim": 192, "v_head_dim": 128, "sliding_window": 128, "n_routed_experts": 256,
        "hybrid_layer_pattern": [0, *([1] * 5 + [0]) * 7, *[1] * 4, 0], "num_experts_per_tok": 8,
        "moe_intermediate_size": 2048, "vocab_size": 152576}),
    "Llama 4 Maverick": (400.7, 2 * 8 * 128 * 48, {
        "model_type": "llama4", "text_config": {
            "model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 48,
            "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
            "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_local_experts": 128,
            "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "vocab_size": 202048,
            "attention_chunk_size": 8192}}),
    "Gemma 3 4B, text": (3.88, 2 * 4 * 256 * 34, {
        "model_type": "gemma3", "text_config": {
            "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
            "num_hidden_layers": 34, "sliding_window": 1024}}),
}  # fmt: skip


def read(raw: dict[str, Any]) -> LanguageModel:
    return from_mapping(raw, source="config.json", name="m")


@pytest.mark.parametrize("name", FORMS)
def test_published_forms_have_their_cards_sizes(name: str) -> None:
    billions, per_token, raw = FORMS[name]
    model = read(raw)
    text = model.parameters - model.tower_parameters
    assert text / 1e9 == pytest.approx(billions, rel=0.01)
    assert model.cached_values(2) - model.cached_values(1) == per_token


def test_a_value_that_follows_from_nothing_must_be_given() -> None:
    with pytest.raises(DocumentError, match="layer_types: is missing"):
        read({"model_type": "lfm2_moe", "layer_types": None})
    with pytest.raises(DocumentError, match="head_dim: is missing"):
        read({"model_type": "hunyuan_v1_dense", "head_dim": None})


def test_heads_divide_the_width_where_the_class_wants_it() -> None:
    with pytest.raises(DocumentError, match="does not divide hidden_size"):
        read({**DENSE, "num_attention_heads": 60})
    assert read({"model_type": "glm4_moe"}).head_dim == 4096 // 96  # the class's own defaults


def test_layers_that_differ_are_counted_as_either_form_says() -> None:
    layers = (["sliding_attention"] * 5 + ["full_attention"]) * 2
    text = {"model_type": "gemma4_text", "num_hidden_layers": 12, "layer_types": layers}
    published = read({**text, "global_head_dim": 128})
    written = read({**text, "per_layer_config": {"05": {"head_dim": 128}, "11": {"head_dim": 128}}})
    assert published.parameters == written.parameters < read(text).parameters
    assert published.attention == written.attention
    assert {a.values_per_token for a in read(text).attention} == {2 * 4 * 256, 2 * 4 * 512}
    for broken in ([1], {"first": {"head_dim": 128}}, {"5": [128]}, {"5": {"head_dim": "wide"}}):
        with pytest.raises(DocumentError):
            read({**text, "per_layer_config": broken})
    with pytest.raises(DocumentError, match="window_of_audio"):
        read({**text, "per_layer_config": {"5": {"window_of_audio": 3}}})


def test_towers_are_counted_where_the_file_has_them() -> None:
    text = {"model_type": "gemma4_text", "num_hidden_layers": 6}
    alone = {"model_type": "gemma4", "text_config": text, "audio_config": None}
    assert read(alone).tower_parameters == 0
    assert read({**alone, "vision_config": {}}).tower_parameters > 1e8
    depth = {"model_type": "glm4v", "depth": 24, "intermediate_size": 13696}
    glm = read({"model_type": "glm4v", "text_config": {"model_type": "glm4v_text"},
                "vision_config": depth})  # fmt: skip
    assert glm.tower_parameters == pytest.approx(0.89e9, rel=0.01)


def test_the_text_model_says_whether_its_ends_are_tied_where_the_file_around_it_does_not() -> None:
    inner = {"model_type": "ministral3", "tie_word_embeddings": False}
    untied = read({"model_type": "mistral3", "text_config": inner})
    assert not untied.tied
    assert read({"model_type": "mistral3", "text_config": inner, "tie_word_embeddings": True}).tied


def test_chunks_windows_and_states_bound_the_cache() -> None:
    chunked = read(FORMS["Llama 4 Maverick"][2])
    assert chunked.cached_values(100_000) < 0.35 * 100_000 * 2 * 8 * 128 * 48
    hybrid = read(FORMS["Nemotron 3 Nano"][2])
    assert hybrid.state_values > 23 * 64 * 64 * 128
    gemma = read(FORMS["Gemma 3 4B, text"][2])
    assert gemma.cached_values(32_768) < 0.25 * 32_768 * 2 * 4 * 256 * 34


@pytest.mark.parametrize(
    ("quantised", "bits", "compute"),
    [
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {
            "targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 128}}}},
         4.13, 16),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {
            "targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"},
            "input_activations": {"num_bits": 8, "type": "float"}}}, "ignore": ["lm_head"]}, 8, 8),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4.5, 4),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, 8, 8),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}, 4.13, 16),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 4.16, 16),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4.16, 16),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {
            "nbits": 4, "group_size": 64}}}, 4.5, 16),
        ({"quant_method": "quark", "global_quant_config": {
            "weight": {"dtype": "fp8_e4m3"}, "input_tensors": {"dtype": "fp8_e4m3"}}}, 8, 8),
        ({"quant_method": "torchao", "quant_type": {"default": {
            "_type": "Int4WeightOnlyConfig"}}}, 4.5, 16),
        ({"quant_method": "torchao", "quant_type": "int8_dynamic_activation_int8_weight"}, 8, 8),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True,
          "bnb_4bit_use_double_quant": True}, 4.127, 16),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8, 8),
    ],
)  # fmt: skip
def test_each_method_of_quantisation_says_its_bits(
    quantised: dict[str, Any], bits: float, compute: float
) -> None:
    model = read({**DENSE, "quantization_config": quantised})
    assert model.weight_bits == pytest.approx(bits, rel=0.01)
    assert model.compute_bits == compute


def test_modules_that_are_not_quantised_keep_their_bits() -> None:
    moe = {"model_type": "gpt_oss", "torch_dtype": "bfloat16"}
    known = read({**moe, "quantization_config": {
        "quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"],
    }})  # fmt: skip
    assert 4.25 < known.weight_bits < 5
    assert known.compute_bits == 16
    half = read({**DENSE, "quantization_config": {
        "quant_method": "fp8", "modules_to_not_convert": [
            f"model.layers.{i}.mlp" for i in range(80)]}})  # fmt: skip
    assert half.weight_bits > 14
    named = read({**DENSE, "quantization_config": {
        "quant_method": "compressed-tensors", "ignore": ["re:.*self_attn.*"], "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int"}}},
    }})  # fmt: skip
    assert 9 < named.weight_bits < 10


@pytest.mark.parametrize(
    ("quantised", "said"),
    [({"quant_method": "magic"}, "a method of quantisation"), ({"x": 1}, "a method"),
     ({"quant_method": "modelopt", "quant_algo": "FP3"}, "not known"),
     ({"quant_method": "compressed-tensors"}, "is missing"), ([4], "must be an object"),
     ({"quant_method": "gptq", "bits": "four"}, "bits"),
     ({"quant_method": "fp8", "modules_to_not_convert": [1]}, "list of modules")],
)  # fmt: skip
def test_formats_that_nobody_knows_are_refused(quantised: Any, said: str) -> None:
    with pytest.raises(DocumentError, match=said):
        read({**DENSE, "quantization_config": quantised})


def test_nvidias_file_beside_the_configuration_counts(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DENSE))
    beside = tmp_path / "hf_quant_config.json"
    beside.write_text(json.dumps({"producer": {"name": "modelopt"}, "quantization": {
        "quant_algo": "NVFP4", "exclude_modules": ["lm_head", "model.layers.0*"]}}))  # fmt: skip
    model = read_config(tmp_path / "config.json")
    assert 4.5 < model.weight_bits < 5.5
    contradicting = {**DENSE, "quantization_config": {"quant_method": "fp8"}}
    (tmp_path / "config.json").write_text(json.dumps(contradicting))
    with pytest.raises(DocumentError, match=r"NVFP4 and config\.json beside it fp8"):
        read_config(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"peft_type": "LORA", "base_model_name_or_path": "org/base"}, "adapter of org/base"),
        ({"model_type": "gemma4_assistant", "text_config": {}}, "proposes tokens to another"),
        ({"_class_name": "FluxPipeline", "_diffusers_version": "0.30"}, "diffusers"),
        ({"dim": 4096, "n_layers": 32, "n_heads": 32, "vocab_size": 128256}, r"params\.json"),
        ({"metadata": {"total_size": 1}, "weight_map": {"a": "b"}}, "index of a model's weight"),
        ({"producer": {}, "quantization": {"quant_algo": "FP8"}}, "how a model's weights"),
        ({"tokenizer_class": "LlamaTokenizer"}, "tokenizer"),
        ({"model_type": "clip", "architectures": ["CLIPModel"]}, "encoder, 'clip'"),
        ({"model_type": "nomic_bert", "architectures": ["NomicBertModel"]}, "encoder"),
        ({"model_type": "new", "architectures": ["NewModel"]}, "encoder"),
        ({"model_type": "qwen3", "architectures": ["Qwen3ForSequenceClassification"]}, "encoder"),
    ],
)  # fmt: skip
def test_other_files_are_named_for_what_they_are(raw: dict[str, Any], said: str) -> None:
    with pytest.raises(DocumentError, match=said) as raised:
        read(raw)
    assert raised.value.hint


def test_a_key_of_another_family_is_named() -> None:
    with pytest.raises(DocumentError, match=r"kv_lora_rank: is 512"):
        read({**DENSE, "kv_lora_rank": 512})
    assert read({**DENSE, "kv_lora_rank": None, "num_experts": 0, "rope_theta": 1e6})


def test_code_that_a_configuration_points_to_is_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "modeling_x.py").write_text(f"open({str(mark)!r}, 'w')")
    raw = {**DENSE, "auto_map": {"AutoModelForCausalLM": "modeling_x.X"}}
    (tmp_path / "config.json").write_text(json.dumps(raw))
    assert read_config(tmp_path / "config.json").parameters == read(DENSE).parameters
    assert not mark.exists()


def test_mlx_quantises_the_embeddings_too() -> None:
    mlx = read({**DENSE, "quantization": {"group_size": 64, "bits": 4, "lm_head": {"bits": 8}}})
    assert (mlx.weight_bits, mlx.compute_bits, mlx.end_bits) == pytest.approx((4.5, 16, 4.5))
    with pytest.raises(DocumentError, match="MLX"):
        read({**DENSE, "quantization": {"bits": 4}})


@pytest.mark.parametrize(
    ("isa", "server", "bits"),
    [("sm_100", "trtllm", 8), ("sm_103", "sglang", 8), ("sm_100", "vllm", 16),
     ("sm_90", "trtllm", 16), ("gfx950", "vllm", 16)],
)  # fmt: skip
def test_mxfp4_has_8_bit_activations_where_accelerator_and_server_do(
    isa: str, server: str, bits: int
) -> None:
    assert product_bits("mxfp4", 16, isa, server) == bits


def test_4_bits_are_weights_alone_where_the_accelerator_has_no_units_of_4() -> None:
    assert [product_bits("", 4, isa, "vllm") for isa in ("sm_90", "sm_100", "gfx950")] == [16, 4, 4]
    assert product_bits("", 8, "sm_80", "vllm") == 8


def test_the_format_of_experts_alone_counts() -> None:
    mixture = {
        "model_type": "mixtral",
        "torch_dtype": "bfloat16",
        "quantization_config": {"quant_method": "fp8"},
    }
    fp4 = read({**mixture, "expert_dtype": "fp4"})
    assert 4.25 < fp4.weight_bits < 5 < read(mixture).weight_bits
    assert fp4.compute_bits == 8
    with pytest.raises(DocumentError, match="fp3"):
        read({**mixture, "expert_dtype": "fp3"})
