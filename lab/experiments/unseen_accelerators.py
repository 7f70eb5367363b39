"""Served language models on accelerators that nothing was measured on."""

from __future__ import annotations

from dataclasses import asdict

from berth.plugin.cli.columns import columns
from lab.experiments.options import Options
from lab.experiments.shown import show


def evaluate(options: Options) -> None:
    """Each accelerator with a CUDA sibling left out: physics alone, and the sibling's effects."""
    from lab.llm.unseen_accelerators import HEADER  # noqa: PLC0415 - needs the extra
    from lab.llm.unseen_accelerators import evaluate as run  # noqa: PLC0415

    found = run()
    table = columns(HEADER, [one.cells() for one in found])
    show(
        options,
        {"left_out": [asdict(one) for one in found]},
        f"Split: one accelerator left out after the other. Median error of the time:\n{table}",
        file="unseen-accelerators.json",
    )
