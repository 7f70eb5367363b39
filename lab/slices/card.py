"""The model card of the slice predictor."""

from __future__ import annotations

import math

from berth.predictor.families.slices.bundle import SliceManifest


def card(manifest: SliceManifest, disagreement: float) -> str:
    """``CARD.md`` as text."""
    shares = manifest.shares
    lines = [
        "# Model card: slow-down on MIG slices",
        "",
        f"Made {manifest.created} by `{manifest.command}` with Berth {manifest.berth_version}.",
        "",
        "## What it is",
        "Physics first: a smooth maximum of what a slice does not stretch (launches, the host) and",
        "of work over the slice's effective share. `sweep` and `batches` fit that law to the",
        "workload's own times on the whole GPU and add a learnt correction (gradient boosting,",
        f"`{manifest.training.residual}`, ONNX; largest difference from the trainer's own output",
        f"{disagreement:.1e}). `counters`, `utilisation` and `time` learn the one unknown of the",
        "law from utilisation, power and step time (averaged Gaussian processes, JSON).",
        "",
        "## Data",
        *(
            f"- `{path}` sha256 `{digest[:16]}` (MIT)"
            for path, digest in manifest.training.sources.items()
        ),
        "",
        "## Effective shares",
        "| compute | memory | effective |",
        "|---|---|---|",
        *(f"| {m.compute:.3f} | {m.memory:.3f} | {m.effective:.3f} |" for m in shares.measured),
        "",
        f"Others: {shares.scale:.3f} c^{1 - shares.memory_weight:.2f} "
        f"m^{shares.memory_weight:.2f}.",
        "",
        "## Methods and widths",
        "Half width of the interval in log slow-down: q (0.1 + log 1/effective) + unsteadiness;",
        "q from models left out, each model weighing the same. The factor is that of a slice of a",
        "seventh at 90 %.",
        "",
        "| method | data | models | rows | q90 | q95 | factor on 1g | with a probe |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for entry in manifest.methods:
        hard = 0.1 - math.log(shares.measured[0].effective)
        probed = "-" if entry.probed is None else f"{math.exp(entry.probed.q90 * hard):.2f}"
        lines.append(
            f"| {entry.name} | {entry.data} | {entry.models} | {entry.rows} "
            f"| {entry.width.q90:.3f} | {entry.width.q95:.3f} "
            f"| {math.exp(entry.width.q90 * hard):.2f} | {probed} |"
        )
    lines += ["", "## Figures"]
    if manifest.figures:
        lines += ["Nested leave-one-model-out (`python -m lab mig-slices`).", ""]
        lines += ["| figure | value |", "|---|---|"]
        lines += [f"| {name} | {value:.4g} |" for name, value in manifest.figures.items()]
    else:
        lines.append("None were computed; `python -m lab mig-slices` computes them.")
    lines += [
        "",
        "## Limits",
        "- Two A100s. Other GPUs are predicted by the same law as *prior*, with intervals 1.5",
        "  times as wide in log; slices with other shares 1.25 times.",
        "- Eleven inference and eight training models, one slice in use at a time: neighbours on",
        "  the same GPU (power, clocks) are not in the data.",
        "- Widths are quantiles over 8 to 19 models: their coverage on the next model is measured",
        "  (see the evaluation), not guaranteed.",
        f"- Seed {manifest.training.seed}; "
        f"{', '.join(f'{k} {v}' for k, v in manifest.training.libraries.items())}.",
    ]
    return "\n".join(lines) + "\n"
