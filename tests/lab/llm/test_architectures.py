"""The count of language models is held to transformers' classes and to the models' cards."""

from __future__ import annotations

import pytest

from lab.llm.architectures.evaluate_counts import ENCODER, REFUSED, RIGHT, form_verdicts


def test_published_files_are_counted_as_on_their_cards_or_refused() -> None:
    verdicts = form_verdicts()
    assert not [v for v in verdicts if v.verdict not in (RIGHT, REFUSED)]
    refused = [v.model_type for v in verdicts if v.verdict == REFUSED]
    assert len(refused) <= len(verdicts) // 12, refused


@pytest.mark.slow
@pytest.mark.parametrize(
    "model_type",
    ["llama", "qwen3_moe", "gemma3_text", "deepseek_v3", "nemotron_h", "falcon_h1", "gpt_oss",
     "granitemoehybrid", "jamba", "mamba2", "falcon", "nemotron", "laguna", "recurrent_gemma",
     "gemma4_text", "dots3_note", "zamba2", "xlstm"],
)  # fmt: skip
def test_a_family_is_counted_as_its_class_counts_it(model_type: str) -> None:
    pytest.importorskip("transformers")
    from lab.llm.architectures.evaluate_counts import quiet, verdict

    quiet()
    assert verdict(model_type).verdict == RIGHT
    assert verdict("bert").verdict == ENCODER


@pytest.mark.slow
def test_a_family_is_derived_from_its_class() -> None:
    pytest.importorskip("transformers")
    from berth.predictor.families.language_model import families
    from lab.llm.architectures.derive import derive

    derived = derive("olmo")
    assert not derived.problems
    raw = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
           "num_hidden_layers": 3, "intermediate_size": 96, "vocab_size": 100}  # fmt: skip
    counted = families.count(derived.entry, raw, "config.json")
    per_layer = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 96
    assert sum(w.count for w in counted.weights if ".layers." in w.name) == 3 * per_layer
    assert [(c.heads, c.head_dim) for c in counted.cache] == [(2, 16)] * 3
