"""The count of language models is held to transformers' classes and to the models' cards."""

from __future__ import annotations

import pytest

from lab.llm.lm_counts import ENCODER, REFUSED, RIGHT, form_verdicts


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
    from lab.llm.lm_counts import quiet, verdict

    quiet()
    assert verdict(model_type).verdict == RIGHT
    assert verdict("bert").verdict == ENCODER
