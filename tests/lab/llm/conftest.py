"""A small made-up campaign of language models: physics with known effects and a quirk a pair."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from berth.predictor.families.language_model.load import LlmLoad
from berth.predictor.families.language_model.physics import OFFLINE, LlmCase, combine, log_terms
from berth.predictor.hardware.unit import unit_named
from lab.llm.cases import Cases, Measured, models, table_of
from lab.llm.effects import start_of

NAMES = ("meta-llama/Llama-2-7b-hf", "meta-llama/Meta-Llama-3-8B", "mistralai/Mistral-7B-v0.1",
         "mistralai/Mixtral-8x7B-v0.1")  # fmt: skip
PLACES = (("a100-sxm-40gb", "vllm"), ("h100-sxm-80gb", "vllm"), ("a100-sxm-40gb", "llama.cpp"),
          ("mi300x-192gb", "vllm"))  # fmt: skip


@pytest.fixture(scope="session")
def campaign() -> Callable[[str], Cases]:
    """Made-up tables by head: four models on four pairs under a grid of loads, 2 % noise."""

    def made(head: str = OFFLINE) -> Cases:
        random = np.random.default_rng(0)
        cases, frameworks, quirks = [], [], []
        for place, (accelerator, framework) in enumerate(PLACES):
            for name in NAMES:
                for batch in (1, 16, 64):
                    for length in (128, 512, 2048):
                        load = LlmLoad(batch, length, length, tensor_parallel=4)
                        cases.append(LlmCase(models()[name], load, unit_named(accelerator)))
                        frameworks.append(framework)
                        quirks.append(0.3 * np.sin(place + np.log(batch)))
        log_time = combine(log_terms(head, cases), start_of(head))[0]
        seconds = np.exp(log_time + np.array(quirks) + 0.02 * random.normal(size=len(cases)))
        rows = zip(cases, frameworks, seconds.tolist(), strict=True)
        return table_of(head, [Measured(c, f, "", s, "made up") for c, f, s in rows])

    return made
