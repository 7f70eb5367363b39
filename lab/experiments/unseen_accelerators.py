"""Served language models on accelerators that nothing was measured on."""

from __future__ import annotations

import math

from lab.experiments.options import Options
from lab.ground.report import Report, Section
from lab.llm import unseen_accelerators

_HEADER = ("head", "left out", "sibling", "rows", "physics", "sibling's effects", "90 % factor")


def evaluate(options: Options) -> Report:
    """Each accelerator with a CUDA sibling left out: physics alone, and the sibling's effects."""
    found = unseen_accelerators.evaluate()
    rows = [
        (one.head, one.accelerator, one.sibling, str(one.rows), f"{one.physics_error:.0%}",
         f"{one.sibling_error:.0%}", f"{math.exp(one.log_width):.2f}")
        for one in found
    ]  # fmt: skip
    return Report(
        "Language models on accelerators never measured",
        ("Split: one accelerator left out after the other.",),
        (Section("Median error of the time", _HEADER, rows),),
        {"left_out": found},
    )
