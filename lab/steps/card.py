"""The model card of the training steps' bundle."""

from __future__ import annotations

import math

from berth.predictor.families.training_step.bundle import StepManifest


def card(manifest: StepManifest, disagreement: float) -> str:
    """``CARD.md`` as text."""
    lines = [
        "# Model card: training steps of model graphs",
        "",
        f"Made {manifest.created} by `{manifest.command}` with Berth {manifest.berth_version}.",
        "",
        "## What it is",
        "For each device measured: rates of six parts of a step's work, and the mean of boosted",
        "trees and a Gaussian process over what those rates miss (ONNX; largest difference from",
        f"the trainer's own output {disagreement:.1e} in log seconds). On other devices the rates",
        "are moved by the ratio of roofs.",
        "",
        "## Data",
        *(
            f"- `{path}` sha256 `{digest[:16]}`"
            for path, digest in manifest.training.sources.items()
        ),
        "",
        "timm's results: Apache-2.0; one GPU, mixed precision, SGD with momentum, the largest",
        "batch that fitted. Ours: one core of a virtual machine, fp32, SGD with momentum, small",
        "models at batch 2 to 8.",
        "",
        "## Widths",
        "Factor from the middle to an end of the 90 % interval, of rows left out of every fit.",
        "",
        "| device | rows | models | split | factor |",
        "|---|---|---|---|---|",
    ]
    for head in manifest.heads:
        for width in (head.here, head.elsewhere):
            lines.append(
                f"| {head.platform} | {head.rows} | {head.models} | {width.split} ({width.rows} "
                f"rows) | {math.exp(width.log_width):.2f} |"
            )
    lines += [
        "",
        "Other GPUs: of inference on two of them, as a stand-in. Other CPUs: of the move from the",
        "GPU to our core, the only one there is.",
        "",
        "## What is not verified",
        "Training on any GPU but the RTX 3090, on several cores, in other precisions, with other",
        "optimisers, on several GPUs; what loading data takes.",
    ]
    if manifest.figures:
        lines += ["", "## Figures", "", "| figure | value |", "|---|---|"]
        lines += [f"| {name} | {value:.4g} |" for name, value in manifest.figures.items()]
    return "\n".join(lines) + "\n"
