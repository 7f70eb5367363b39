"""The model card of the language-model predictor."""

from __future__ import annotations

import math

from berth.predictor.families.language_model.bundle import LlmManifest
from berth.predictor.families.language_model.physics import OFFLINE, TPOT, TTFT

_WHAT = {
    OFFLINE: "latency of a batch of equal requests (LLM-Inference-Bench)",
    TTFT: "time to the first token under a closed load (aiconfigurator)",
    TPOT: "time of each further token under a closed load (aiconfigurator)",
}


def card(manifest: LlmManifest, disagreement: float) -> str:
    """``CARD.md`` as text."""
    lines = [
        "# Model card: serving of language models",
        "",
        f"Made {manifest.created} by `{manifest.command}` with Berth {manifest.berth_version}.",
        "",
        "## What it is",
        "Physical shares of the time (weights, cache, products, layers, messages), each scaled by",
        "what the framework achieves, and a Gaussian process over what that misses (ONNX, double",
        f"precision; largest difference from the trainer's own output {disagreement:.1e} in log",
        "seconds). Where nothing was measured on an accelerator, physics alone, and an abstention.",
        "",
        "## Data",
        *(
            f"- `{path}` sha256 `{digest[:16]}`"
            for path, digest in manifest.training.sources.items()
        ),
        "",
        "LLM-Inference-Bench: BSD-3-Clause. aiconfigurator: Apache-2.0. 16-bit and, for TTFT and",
        "TPOT, 8- and 4-bit; inputs and outputs of 128 to 15,000 tokens.",
        "",
        "## What is not verified",
        "Peak memory, energy and carbon: public data have no labels. They are counted, or a share",
        "of the rated power. Offline throughput at other bits than 16, or with outputs unlike",
        "inputs in length, stands on physics.",
        "",
        "## Widths",
        "Factor from the middle to an end of the 90 % interval, by how like what was measured a",
        "case is; from parts that nothing was fitted on, each block weighing the same. That of an",
        "unseen accelerator is of a handful of them: not guaranteed. What is less alike is never",
        "told with more certainty than what is more.",
        "",
        "| quantity | likeness | split | rows | blocks | factor |",
        "|---|---|---|---|---|---|",
    ]
    for head in manifest.heads:
        for likeness, width in head.widths.items():
            lines.append(
                f"| {_WHAT[head.head]} | {likeness.value} | {width.split} | {width.rows} "
                f"| {width.groups} | {math.exp(width.log_width):.2f} |"
            )
    lines += ["", "## Figures"]
    if manifest.figures:
        lines += ["`python -m lab language-models`; the split is in the name.", ""]
        lines += ["| figure | value |", "|---|---|"]
        lines += [f"| {name} | {value:.4g} |" for name, value in manifest.figures.items()]
    else:
        lines.append("None given: run `python -m lab language-models --report DIR`.")
    return "\n".join(lines) + "\n"
