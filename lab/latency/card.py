"""The model card of the learnt time of model graphs."""

from __future__ import annotations

import math

from berth.predictor.families.graph.latency.bundle import LatencyManifest


def card(manifest: LatencyManifest) -> str:
    """``CARD.md`` as text."""
    lines = [
        "# Model card: time of deep-learning models",
        "",
        f"Made {manifest.created} by `{manifest.command}` with Berth {manifest.berth_version}.",
        "",
        "## What it is",
        "Inference of a model graph: a sum of groups of operators with weights of at least 0 by",
        "setting (platform, precision, layout, software), and a Gaussian process over how models",
        "resemble each other. Arrays in `processes.npz`, read by numpy; no graph and no name of a",
        "model is in it.",
        "",
        "## Data",
        *(f"- `{p}` sha256 `{d[:16]}`" for p, d in manifest.training.sources.items()),
        "- `predictor/training/latency/tables/described.npz`: work of graphs that the archive",
        "  lacks, exported from timm; `predictor/training/graphs/data/model_runs.jsonl`: our CPU.",
        "",
        f"timm: Apache-2.0; image models; {manifest.training.graphs} graphs; the batch on GPUs is",
        "the largest that fits (up to 2048), on CPUs 1. Small batches on GPUs are out of range:",
        "the interval is then wide, and the prediction says so.",
        "",
        "## Settings",
        "Width: factor from the middle to an end of the 90 % interval for a model of median",
        f"likeness. Split: {manifest.split}.",
        "",
        "| setting | told by default | rows | batches | factor |",
        "|---|---|---|---|---|",
        *(
            f"| {one.name.replace(' | ', ', ')} | {'yes' if one.usual else 'no'} | {one.rows} | "
            f"{one.batches[0]} to {one.batches[1]} | {math.exp(one.log_width * 0.7):.2f} |"
            for one in manifest.settings
        ),
        "",
        "## Figures",
    ]
    if manifest.figures:
        lines += ["`python -m lab model-latency`; split and rows are in the name.", ""]
        lines += ["| figure | value |", "|---|---|"]
        lines += [f"| {name} | {value:.4g} |" for name, value in manifest.figures.items()]
    else:
        lines.append("None given: run `python -m lab model-latency --report DIR`.")
    return "\n".join(lines) + "\n"
