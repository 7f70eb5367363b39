"""Predicting one language model on all accelerators, after load. Bar: 1 ms.

Uses the shipped bundle and Llama-3-8B's configuration.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from timing.calls import times_s

from berth.predictor.families.language_model.config import from_mapping
from berth.predictor.families.language_model.load import Load
from berth.predictor.families.language_model.predictor import LlmPredictor
from berth.predictor.hardware import platforms
from berth.predictor.hardware.unit import units

RUNS = 300
BAR_MS = 1.0
CONFIG = {
    "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "vocab_size": 128256, "max_position_embeddings": 8192, "tie_word_embeddings": False,
}  # fmt: skip


def median_ms(work: Callable[[], object]) -> float:
    """Median wall time of ``work`` in milliseconds, after a warm-up."""
    return 1e3 * statistics.median(times_s(work, RUNS))


def main() -> None:
    """Print the table."""
    start = time.perf_counter()
    predictor = LlmPredictor.load()
    loaded = 1e3 * (time.perf_counter() - start)
    places = units(platforms.load(), predictor.accelerators)
    work = Load(8, 1024, 128)

    def ask(names: list[str]) -> float:
        chosen = [places[name] for name in names]
        return median_ms(
            lambda: predictor.predict(
                from_mapping(CONFIG, source=Path("config.json"), name="llama"), work, chosen
            )
        )

    one, every = ask(["h100-80gb"]), ask(list(places))
    print(f"load the bundle                      {loaded:7.2f} ms")
    for what, took in (("1 accelerator ", one), (f"{len(places)} accelerators", every)):
        verdict = "met" if took <= BAR_MS else "missed"
        print(f"configuration to {what}     {took:7.2f} ms   bar {BAR_MS:.0f} ms: {verdict}")


if __name__ == "__main__":
    main()
