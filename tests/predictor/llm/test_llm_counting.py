"""Memory, devices and the thesis's features are counted as they should be."""

from __future__ import annotations

from typing import Any

import pytest

from berth.pilot.errors import UsageError
from berth.predictor.families.language_model.config import from_mapping
from berth.predictor.families.language_model.load import LlmLoad, memory
from berth.predictor.hardware import platforms
from berth.predictor.hardware.unit import units
from lab.llm.cases import models

LLAMA2, LLAMA3 = "meta-llama/Llama-2-7b-hf", "meta-llama/Meta-Llama-3-8B"
MIXTRAL, DEEPSEEK = "mistralai/Mixtral-8x7B-v0.1", "deepseek-ai/DeepSeek-V3"


def test_weights_are_parameters_times_bytes() -> None:
    model = models()[LLAMA2]
    found = memory(model, LlmLoad(1, 128, 128))
    assert found.weights == pytest.approx(model.parameters * 2)
    quarter = memory(model, LlmLoad(1, 128, 128, weight_bits=4))
    # Tables at the ends stay in 16 bits.
    assert 0.25 < quarter.weights / found.weights < 0.3


def test_the_cache_of_llama_2_is_half_a_megabyte_a_token() -> None:
    found = memory(models()[LLAMA2], LlmLoad(3, 100, 28))
    assert found.cache_of_one == 128 * 524288
    assert found.cache == 3 * found.cache_of_one
    assert memory(models()[LLAMA2], LlmLoad(3, 100, 28, kv_bits=8)).cache == found.cache / 2


def test_gpus_share_weights_and_heads_but_not_a_latent() -> None:
    one, four = (memory(models()[LLAMA3], LlmLoad(8, 512, 512, tensor_parallel=n)) for n in (1, 4))
    assert four.weights == pytest.approx(one.weights / 4)
    assert four.cache == pytest.approx(one.cache / 4)
    sixteen = memory(models()[LLAMA3], LlmLoad(8, 512, 512, tensor_parallel=16))
    assert sixteen.cache == pytest.approx(one.cache / 8)
    latent = [memory(models()[DEEPSEEK], LlmLoad(8, 512, 512, tensor_parallel=n)) for n in (1, 8)]
    assert latent[1].cache == latent[0].cache


def test_experts_are_dealt_over_replicas() -> None:
    together = memory(models()[MIXTRAL], LlmLoad(8, 512, 512, data_parallel=8))
    dealt = memory(models()[MIXTRAL], LlmLoad(8, 512, 512, data_parallel=8, expert_parallel=8))
    assert dealt.weights < 0.3 * together.weights


def test_more_of_anything_never_needs_less() -> None:
    model = models()[LLAMA3]
    least = memory(model, LlmLoad(4, 512, 512))
    for more in (LlmLoad(8, 512, 512), LlmLoad(4, 1024, 512), LlmLoad(4, 512, 1024)):
        assert memory(model, more).peak.high > least.peak.high
    assert least.peak.low <= least.peak.mid <= least.peak.high


def test_where_memory_is_short_fewer_sequences_are_resident() -> None:
    found = memory(models()[LLAMA2], LlmLoad(64, 2048, 2048))
    assert 1 <= found.resident(40e9) < 15
    assert found.resident(192e9) > 64


@pytest.mark.parametrize(
    ("load", "said"),
    [({"batch": 0}, "batch"), ({"input_tokens": -1}, "input tokens"),
     ({"weight_bits": 0}, "bits"), ({"tensor_parallel": 0}, "tensor parallel")],
)  # fmt: skip
def test_a_load_that_makes_no_sense_is_refused(load: dict[str, int], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        LlmLoad(**{"batch": 1, "input_tokens": 1, "output_tokens": 1, **load})  # type: ignore[arg-type]


def test_every_shipped_gpu_is_a_place_to_serve_from() -> None:
    shipped = platforms.shipped()
    found = units(shipped)
    assert {n for n, p in shipped.items() if p.is_gpu} <= set(found)
    assert "b200-sxm-180gb" in found  # under the catalogue's name, without a platform
    assert "a100-sxm-40gb" not in found  # a100-40gb is it
    assert set(units(shipped, ["b200-sxm-180gb"])) - set(shipped) == {"b200-sxm-180gb"}


def test_a_slice_has_its_share() -> None:
    found = units(platforms.shipped())
    part, parent = found["h100-mig-3g.40gb"], found["h100-80gb"]
    assert not part.whole
    assert part.flops_per_s(16) == pytest.approx(parent.flops_per_s(16) * 48 / 132)
    assert part.bytes_per_s < parent.bytes_per_s
    assert part.memory_bytes < parent.memory_bytes


def test_a_sites_own_platform_points_to_its_accelerator() -> None:
    shipped = platforms.shipped()
    ours = shipped["h100-80gb"].model_copy(
        update={"name": "ours", "accelerator": "h200-sxm-141gb", "price_per_hour": 3.0}
    )
    found = units({**shipped, "ours": ours})["ours"]
    assert found.sheet.name == "h200-sxm-141gb"
    assert found.price_per_hour == 3.0


def test_narrower_operands_are_never_slower() -> None:
    for one in units({}).values():
        assert one.flops_per_s(4) >= one.flops_per_s(8) >= one.flops_per_s(16)
        assert one.flops_per_s(16) >= one.flops_per_s(32)


def test_prompts_are_processed_in_chunks() -> None:
    found = [
        memory(models()[LLAMA3], LlmLoad(1, 131_072, 128, chunk_tokens=chunk)).activations
        for chunk in (2_048, 8_192, 131_072)
    ]
    logits = models()[LLAMA3].vocabulary * 4
    assert [(value - logits) / (found[0] - logits) for value in found] == pytest.approx([1, 4, 64])


GEMMA = {
    "model_type": "gemma3_text", "head_dim": 128, "hidden_size": 5376, "intermediate_size": 21504,
    "num_attention_heads": 32, "num_hidden_layers": 62, "num_key_value_heads": 16,
    "sliding_window": 1024, "torch_dtype": "bfloat16",
}  # fmt: skip
HYBRID = {
    "model_type": "qwen3_5_text", "hidden_size": 5120, "intermediate_size": 17408,
    "num_hidden_layers": 64, "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256,
    "full_attention_interval": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
    "linear_num_value_heads": 48, "linear_value_head_dim": 128, "vocab_size": 248320,
    "attn_output_gate": True, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "load", "runs_in_gib"),
    [(HYBRID, LlmLoad(1, 262_000, 144, 8), 47),
     (GEMMA, LlmLoad(1, 130_944, 128, 4, chunk_tokens=2_048), 27)],
)  # fmt: skip
def test_long_prompts_of_windows_and_hybrids_take_what_they_take_in_runtimes(
    config: dict[str, Any], load: LlmLoad, runs_in_gib: float
) -> None:
    peak = memory(from_mapping(config, source="config.json", name="m"), load).peak
    assert peak.mid / 2**30 == pytest.approx(runs_in_gib, rel=0.05)
