"""The range of fine-tuning memory holds published figures; a trainer's choices move it."""

from __future__ import annotations

import pytest

from berth.pilot.errors import UsageError
from berth.predictor.families.language_model.fine_tuning import Method, fine_tuning_memory
from lab.llm.cases import models

EIGHT, SEVENTY = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B"
SEVEN, LARGEST = "meta-llama/Llama-2-7b-hf", "meta-llama/Llama-3.1-405B"


@pytest.mark.parametrize(
    ("name", "method", "gpus", "checkpointing", "measured_gib"),
    [
        (EIGHT, "full", 1, True, 18.9),
        (EIGHT, "full", 1, True, 37.4),
        (EIGHT, "lora", 1, True, 16.2),
        (EIGHT, "lora", 1, False, 30.3),
        (EIGHT, "qlora", 1, True, 7.4),
        (SEVENTY, "lora", 8, True, 27.6),
        (LARGEST, "qlora", 8, True, 44.8),
    ],
)
def test_peaks_that_torchtune_measured_are_in_the_range(
    name: str, method: str, gpus: int, checkpointing: bool, measured_gib: float
) -> None:
    # torchtune's README, "Memory and training speed" (September 2024): batch 2, 2,048 tokens. The
    # constants of the leanest set-up were chosen with these figures in sight.
    need = fine_tuning_memory(
        models()[name], Method(method), batch=2, tokens=2048, gpus=gpus,
        checkpointing=checkpointing,
    )  # fmt: skip
    assert need.low <= measured_gib * 2**30 <= need.high


@pytest.mark.parametrize(
    ("name", "method", "estimated_gb"),
    [
        (SEVEN, "full", 120), (SEVEN, "full", 60), (SEVEN, "lora", 16), (SEVEN, "qlora", 6),
        (SEVENTY, "full", 1200), (SEVENTY, "full", 600), (SEVENTY, "lora", 160),
        (SEVENTY, "qlora", 48),
    ],
)  # fmt: skip
def test_estimates_of_llama_factory_are_in_the_range(
    name: str, method: str, estimated_gb: float
) -> None:
    # LLaMA-Factory's README, "Hardware Requirement": mixed and pure bf16, LoRA, 4-bit QLoRA.
    need = fine_tuning_memory(models()[name], Method(method), batch=1, tokens=1024)
    assert need.low <= estimated_gb * 1e9 <= need.high


def test_more_gpus_and_checkpointing_need_less() -> None:
    def need(**changes: int | bool) -> float:
        arguments = {"batch": 4, "tokens": 4096, **changes}
        return fine_tuning_memory(models()[EIGHT], Method.FULL, **arguments).mid  # type: ignore[arg-type]

    assert need(gpus=8) < need(gpus=2) < need() < need(checkpointing=False)
    assert need(batch=1) < need()


def test_no_sequence_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        fine_tuning_memory(models()[EIGHT], Method.LORA, batch=0, tokens=1)
