"""Predicted memory of model graphs."""

from __future__ import annotations

from berth.plugin.cli.output.step_bar import step_bar
from berth.plugin.report.terminal import columns
from lab.experiments.options import Options
from lab.experiments.shown import show


def evaluate(options: Options) -> None:
    """Table 4.5, MISO's slices and our own runs, each model left out, with baselines."""
    from lab.footprint import evaluate_memory  # noqa: PLC0415 - needs the extra

    with step_bar("evaluating", evaluate_memory.STEPS) as advance:
        found = evaluate_memory.evaluate_memory(advance)
    text = [f"{title}\n{columns(header, rows)}\n" for title, header, rows in found.tables()]
    wrong = ", ".join(found.slices.rows[0].wrong) or "none"
    text += [
        f"Refused slices that would have run: {wrong}.",
        "Unverified: inference without recording, other GPUs and precisions, energy.",
    ]
    show(options, found.as_dict(), "\n".join(text), file="memory.json")


def train(options: Options) -> str:
    """``runtimes.json`` in the folder that is given: what frameworks add to a graph's memory."""
    from lab.footprint.memory_constants import learn, write  # noqa: PLC0415 - needs the extra

    found = learn()
    write(found, options.bundle / "runtimes.json")
    labels = sum(one.labels for one in found.runtimes.values())
    return f"{labels} labels of {len(found.runtimes)} runtimes"
