"""The model card of the operator model."""

from __future__ import annotations

from berth.predictor.families.graph.operators.bundle import Law, OperatorsManifest


def card(manifest: OperatorsManifest, law: Law, disagreement: float) -> str:
    """``CARD.md`` as text."""
    lines = [
        "# Model card: operators on GPUs",
        "",
        f"Made {manifest.created} by `{manifest.command}` with Berth {manifest.berth_version}.",
        "",
        "## What it is",
        "Time of one operator = launch + max(flops / peak within the rated power, bytes /",
        "bandwidth) / utilisation, with a utilisation in (0, 1] from gradient-boosted trees (ONNX;",
        f"largest difference from the trainer's own output {disagreement:.1e} before the logistic",
        "curve). A model graph's time is the sum of its operators.",
        f"Power: the peak is kept from {law.watts:g} W a TFLOP/s of fp32 (16 nm) on; below, its",
        f"share falls with exponent {law.gamma:g}.",
        "",
        "## Data",
        *(
            f"- `{path}` sha256 `{digest[:16]}`"
            for path, digest in manifest.training.sources.items()
        ),
        "",
        f"NeuSight (MIT): {manifest.training.rows} rows, fp32 without TF32, PyTorch, on",
        f"{', '.join(manifest.training.gpus)}. All rows are trained on, the L4's and other test",
        "rows too; the figures below are of models that were trained without them.",
        "",
        "## What it is not",
        "Trained on fp32 alone: half precision, TF32 and tensor cores are scaled by their peaks;",
        "so are GPUs newer than Ada. Convolutions other than 3x3 of stride 1 are taken as matrix",
        "products; pooling, movement and unknown operators as reading and writing their bytes.",
        "Kernels that a compiler fuses are counted apart.",
        "",
        "## Widths",
        "Factors from the time told to the ends of the 90 % interval, on silicon left out.",
        "",
        "| of | low | high | rows | GPUs |",
        "|---|---|---|---|---|",
    ]
    for name, one in (
        *law.widths.items(),
        ("whole model, fp32", law.model),
        ("half precision", law.half),
    ):
        lines.append(f"| {name} | {one.low:.2f} | {one.high:.2f} | {one.rows} | {one.gpus} |")
    lines += ["", "## Figures"]
    if manifest.figures:
        lines += [f"- {name}: {value:.4g}" for name, value in manifest.figures.items()]
    else:
        lines.append("None given: run `python -m lab operators --report DIR`.")
    return "\n".join(lines) + "\n"
