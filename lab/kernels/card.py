"""The model card: what a bundle was made of, how good it is on what split, and what it is not."""

from __future__ import annotations

import math
from collections.abc import Sequence

from berth.predictor.core.intervals import DIFFICULTY_FLOOR
from berth.predictor.families.program.bundle import Manifest


def _factor(score_quantile: float) -> str:
    return f"{math.exp(score_quantile * DIFFICULTY_FLOOR):.2f}"


def card(manifest: Manifest, disagreements: Sequence[float]) -> str:
    """``CARD.md`` as text."""
    training = manifest.training
    lines = [
        "# Model card",
        "",
        f"Made {manifest.created} by `{manifest.command}` with Berth {manifest.berth_version}.",
        "",
        "## What it is",
        "A roofline prior (floating point, instructions, four memory levels, branches, launches,",
        "atomics, reductions) with three calibrated numbers a platform, times a residual learnt by",
        "gradient boosting on log time. Served by onnxruntime; the largest difference from the",
        "trainer's own output over all training rows, with and without gaps, is "
        f"{max(disagreements):.1e}.",
        "",
        "## Data",
        f"- Profiles: {training.rows} ({training.kernels} kernels at sizes "
        f"{', '.join(f'{s:.0f}' for s in training.sizes)}), measured by Berth's own pilot on",
        f"  `{manifest.reference}`; digest `{training.profiles_sha256[:16]}`.",
        "- Labels: RAJAPerf, LLNL thicket and thicket-tutorial (MIT), seconds a repetition:",
        *(f"  - `{e.platform}`: {e.label}; {e.rows} rows." for e in manifest.labelled),
        "",
        "## Calibration",
        "| platform | bias | carry | a reduction | 90 % interval, factor | prior alone |",
        "|---|---|---|---|---|---|",
        *(
            f"| {e.platform} | {e.prior.bias:+.3f} | {e.prior.carry:.2f} "
            f"| {e.prior.reduction_s * 1e6:.0f} us "
            f"| {_factor(e.score_quantile)} | {_factor(e.prior.score_quantile)} |"
            for e in manifest.labelled
        ),
        "",
        "Quantiles are of kernels left out (10 folds over kernels, each kernel weighing the same).",
        "The factor is of a program whose residual is nil; it grows with the residual's size.",
        "",
        "## Figures",
    ]
    if manifest.figures:
        lines += [
            "Nested leave-one-kernel-out over all kernels and sizes: settings, prior and interval",
            "are chosen on the other kernels only.",
            "",
            "| figure | value |",
            "|---|---|",
            *(f"| {name} | {value:.4g} |" for name, value in manifest.figures.items()),
        ]
    else:
        lines.append("None were computed for this bundle; `python -m lab programs` computes them.")
    lines += [
        "",
        "## Limits",
        "- Labels are one Quartz core and one V100. Other core counts are scaled by the roofline;",
        "  platforms without labels get the prior only, with an interval 1.5 times as wide in log",
        "  time, and are never enforced by default.",
        "- A GPU prediction is that of an equivalent GPU build, data resident on the device.",
        "- The training programs are small loops; programs unlike them are abstained from.",
        f"- Seed {training.seed}; {', '.join(f'{k} {v}' for k, v in training.libraries.items())}.",
    ]
    return "\n".join(lines) + "\n"
