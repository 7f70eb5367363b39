"""``python -m lab mig-slices --train``: the slice predictor's bundle from MISO and ParvaGPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from berth.predictor.core.bundle import CARD, Training
from berth.predictor.core.bundle_writing import made_by, versions, write_bundle
from berth.predictor.families.slices import bundle as bundles
from berth.predictor.families.slices.bundle import SLICES_SCHEMA, MethodEntry, SliceManifest
from berth.predictor.families.slices.physics import EASE
from berth.predictor.families.slices.predictor import BATCHES, SWEEP
from lab.datasets.mig import MISO, PARVAGPU
from lab.ground.report import (
    library_line,
    markdown_table,
    model_card,
    source_lines,
)
from lab.slices.fitting import METHODS, fit_process
from lab.slices.slice_errors import GPUS, cases_of, large_width, left_out, shares_without, width

LIBRARIES = ("numpy",)
STEPS = 3 + len(METHODS)
_DATA = {SWEEP: "ParvaGPU, 1 to 5 processes", BATCHES: "ParvaGPU, 1 process"}


def train(
    folder: Path,
    *,
    seed: int,
    command: str,
    figures: Mapping[str, float],
    advance: Callable[[str], None] = lambda _: None,
) -> SliceManifest:
    """Train on both data sets and write the bundle. The same data and seed give the same id."""
    shares = shares_without(frozenset())
    methods = []
    for name in (SWEEP, BATCHES, *METHODS):
        methods.append(_entry(name))
        advance(name)
    manifest = SliceManifest(
        schema=SLICES_SCHEMA,
        **made_by(command, figures),
        gpus=GPUS,
        shares=shares,
        methods=tuple(methods),
        latents=tuple(fit_process(name, cases_of(name), shares) for name in METHODS),
        training=Training(
            sources={d.path: d.sha256 for d in (MISO, PARVAGPU)},
            seed=seed,
            libraries=versions(LIBRARIES),
        ),
    )
    files = {CARD: card(manifest).encode()}
    written = write_bundle(folder, manifest, files, load=bundles.load)
    advance("bundle")
    return written


def _entry(name: str) -> MethodEntry:
    held = left_out(name)
    learnt_from = "MISO" if METHODS.get(name) else "MISO and ParvaGPU, 1 process"
    return MethodEntry(
        name=name,
        rows=len(held),
        models=len(set(held.models.tolist())),
        data=_DATA.get(name, learnt_from),
        width=width(held),
        probed=width(held, probed=True) if held.probe_helps else None,
        large=large_width(held),
    )


def card(manifest: SliceManifest) -> str:
    """``CARD.md`` as text."""
    shares, training = manifest.shares, manifest.training
    hard = EASE - math.log(shares.measured[0].effective)
    widths = [
        (e.name, e.data, str(e.models), str(e.rows), f"{e.width:.3f}",
         f"{math.exp(e.width * hard):.2f}",
         "-" if e.probed is None else f"{math.exp(e.probed * hard):.2f}")
        for e in manifest.methods
    ]  # fmt: skip
    return model_card(
        "slow-down on MIG slices",
        manifest,
        {
            "What it is": [
                "Physics first: a smooth maximum of what a slice does not stretch (launches, the",
                "host) and of work over the slice's effective share. `sweep` fits that model",
                "to the workload's own times on the whole GPU; `batches` is batch equivalence.",
                "Nothing of the two is learnt but the effective shares. `use` and `gpu-use` learn",
                "the one unknown of the model from utilisation, by a Gaussian process each;",
                "`typical` is the mean of all models, for workloads of which one time is known.",
            ],
            "Data": [f"{line} (MIT)" for line in source_lines(training.sources)],
            "Effective shares": [
                *markdown_table(
                    ("compute", "memory", "effective"),
                    [
                        (f"{m.compute:.3f}", f"{m.memory:.3f}", f"{m.effective:.3f}")
                        for m in shares.measured
                    ],
                ),
                "",
                f"Others: {shares.scale:.3f} c^{1 - shares.memory_weight:.2f} "
                f"m^{shares.memory_weight:.2f}.",
            ],
            "Methods and widths": [
                "Half width of the interval in log slow-down: q (0.1 + log 1/effective) +",
                "unsteadiness; q from models left out, each model weighing the same. The factor is",
                "that of a slice of a seventh at 90 %.",
                "",
                *markdown_table(
                    ("method", "data", "models", "rows", "q", "factor on 1g", "with a probe"),
                    widths,
                ),
            ],
            "Limits": [
                "- Two A100s. Other GPUs are predicted by the same model as *prior*, with",
                "  intervals 1.5 times as wide in log; slices with other shares 1.25 times.",
                "- Eleven inference and eight training models, one slice in use at a time:",
                "  neighbours on the same GPU (power, clocks) are not in the data.",
                "- Widths are quantiles over 8 to 19 models: their coverage on the next model is",
                "  measured (see the evaluation), not guaranteed.",
                library_line(training.seed, training.libraries),
            ],
        },
        figures="Nested leave-one-model-out.",
        command="python -m lab mig-slices --report DIR",
    )  # fmt: skip
