"""The model card of transfer between platforms."""

from __future__ import annotations

import math

from berth.predictor.families.graph.latency.transfer.bundle import TransferManifest


def card(manifest: TransferManifest) -> str:
    """``CARD.md`` as text."""
    lines = [
        "# Model card: latency of model graphs on a new platform",
        "",
        f"Made {manifest.created} by `{manifest.command}` with Berth {manifest.berth_version}.",
        "",
        "## What it is",
        "A Gaussian process over graph, platform and software, around the time under the",
        "platform's roofs (`predictor/latency/transfer/kernel.py`). `cases.npz` holds the measured",
        "cases it stands on, as features and times, without names or graphs; a site adds its own",
        "by `berth train --task models --adapt` (`docs/model-new-platform.md`).",
        "",
        "## Data",
        *(f"- `{path}` sha256 `{sum_[:16]}`" for path, sum_ in manifest.training.sources.items()),
        "",
        f"pytorch-image-models, results, Apache-2.0: inference, {manifest.training.rows} rows of",
        f"{', '.join(one.platform for one in manifest.platforms)}.",
        "",
        "## Widths",
        "Factor from the middle to an end of the 90 % interval, by samples of the platform: the",
        "widest of the held-out devices of its kind, of which there are three and two; not",
        f"guaranteed. Split: {manifest.split}.",
        "",
        "| samples | GPU | CPU |",
        "|---|---|---|",
    ]
    gpu, cpu = (
        {one.samples: math.exp(one.log_width) for one in manifest.widths if one.gpu == kind}
        for kind in (True, False)
    )
    lines += [
        f"| {k} | {gpu[k]:.2f} | {cpu[k]:.2f} |" for k in sorted(gpu.keys() & cpu.keys())
    ]  # fmt: skip
    lines += [
        "",
        "## What is not verified",
        "Language models, training steps, MIG slices and accelerators of other makers: no row of",
        "them was learnt from. GPUs of data centres: none is in the data.",
        "",
    ]
    return "\n".join(lines)
