"""``python -m lab mig-slices --train``: the slice predictor's bundle from MISO and ParvaGPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from berth.pilot.documents import to_json
from berth.predictor.core.bundle import CARD, Training
from berth.predictor.core.bundle_writing import made_by, versions, write_bundle
from berth.predictor.families.slices import bundle as bundles
from berth.predictor.families.slices.bundle import (
    LATENTS,
    RESIDUAL,
    RESIDUAL_FEATURES,
    SLICES_SCHEMA,
    MethodEntry,
    SliceManifest,
)
from berth.predictor.families.slices.latent import LATENT_SCHEMA, LatentFile
from berth.predictor.families.slices.physics import ShareModel
from berth.predictor.families.slices.predictor import BATCHES, EASE, PAIR, SWEEP
from lab.datasets.mig import MISO, PARVAGPU
from lab.ground.report import (
    library_line,
    markdown_table,
    model_card,
    source_lines,
)
from lab.ground.trees_as_onnx import check_trees_agree, trees_to_onnx
from lab.slices.latent import FAMILIES, FamilySpec, fit_family
from lab.slices.slice_cases import (
    Case,
    inference_cases,
    pair_rows,
    sweep_rows,
    training_cases,
)
from lab.slices.slice_errors import (
    FROM_USE,
    Held,
    each_model,
    large_width,
    latent_left_out,
    sweeps_left_out,
    width,
)
from lab.slices.sweep import effective, features_of, fit_shares, fit_sweep

LIBRARIES = ("numpy", "onnxmltools", "onnxruntime", "xgboost-cpu")
STEPS = 2 + len(FAMILIES)


def cases_of(spec: FamilySpec) -> tuple[Case, ...]:
    """Return what a family is trained on: both data sets, or MISO, which has utilisation."""
    if spec.needs:
        return training_cases()
    alone = tuple(c for c in inference_cases() if c.workload.processes == 1)
    return (*training_cases(), *alone)


@cache
def shares_without(model: str) -> ShareModel:
    """Effective shares learnt without a model, also without its namesakes in ParvaGPU."""
    rows = sweep_rows()
    return fit_shares(rows.of(name for name in rows.names if not name.startswith(model)))


def train(
    folder: Path,
    *,
    seed: int,
    command: str,
    figures: Mapping[str, float],
    advance: Callable[[str], None] = lambda _: None,
) -> SliceManifest:
    """Train on both data sets and write the bundle. The same data and seed give the same id."""
    rows = sweep_rows()
    fitted = fit_sweep(rows, pair_rows(), seed)
    data = {SWEEP: "ParvaGPU, 1 to 5 processes", PAIR: "ParvaGPU, 1 process and one run of 2",
            BATCHES: "ParvaGPU, 1 process"}  # fmt: skip
    held_out = sweeps_left_out(each_model(rows), seed)
    methods = [_entry(name, data[name], held) for name, held in held_out.items()]
    advance(SWEEP)
    families = []
    for spec in FAMILIES:
        cases = cases_of(spec)
        families.append(fit_family(spec, cases, fitted.shares))
        learnt_from = "MISO" if spec.needs else "MISO and ParvaGPU, 1 process"
        held = latent_left_out(spec, cases, shares_without)
        methods.append(
            _entry(spec.name, learnt_from, as_recorded(held) if spec.name in FROM_USE else held)
        )
        advance(spec.name)
    files = {LATENTS: to_json(LatentFile(schema=LATENT_SCHEMA, families=tuple(families))).encode()}
    files[RESIDUAL] = trees_to_onnx(fitted.trees, len(RESIDUAL_FEATURES))
    features = features_of(rows, effective(rows, fitted.shares))
    apart = check_trees_agree(files[RESIDUAL], fitted.trees, features)
    manifest = SliceManifest(
        schema=SLICES_SCHEMA,
        **made_by(command, figures),
        gpus=("A100-40GB", "A100-80GB"),
        shares=fitted.shares,
        methods=tuple(methods),
        residual_features=RESIDUAL_FEATURES,
        training=Training(
            sources={d.path: d.sha256 for d in (MISO, PARVAGPU)},
            seed=seed,
            libraries=versions(LIBRARIES),
        ),
    )
    files[CARD] = card(manifest, apart).encode()
    written = write_bundle(folder, manifest, files, load=bundles.load)
    advance("bundle")
    return written


def as_recorded(held: Held) -> Held:
    """Return the predictions as made for jobs: how unsteady their steps are is not recorded."""
    return replace(held, unsteadiness=np.zeros(len(held)))


def _entry(name: str, data: str, held: Held) -> MethodEntry:
    return MethodEntry(
        name=name,
        rows=len(held),
        models=len(set(held.models.tolist())),
        data=data,
        width=width(held),
        probed=width(held, probed=True) if held.probe_helps else None,
        large=large_width(held),
    )


def card(manifest: SliceManifest, disagreement: float) -> str:
    """``CARD.md`` as text."""
    shares, training = manifest.shares, manifest.training
    hard = EASE - math.log(shares.measured[0].effective)
    widths = [
        (e.name, e.data, str(e.models), str(e.rows), f"{e.width.q90:.3f}", f"{e.width.q95:.3f}",
         f"{math.exp(e.width.q90 * hard):.2f}",
         "-" if e.probed is None else f"{math.exp(e.probed.q90 * hard):.2f}")
        for e in manifest.methods
    ]  # fmt: skip
    return model_card(
        "slow-down on MIG slices",
        manifest,
        {
            "What it is": [
                "Physics first: a smooth maximum of what a slice does not stretch (launches, the",
                "host) and of work over the slice's effective share. `sweep` fits that model",
                "to the workload's own times on the whole GPU and adds a learnt correction",
                "(gradient boosting, ONNX; largest difference from the trainer's own output",
                f"{disagreement:.1e}); `pair` is the same with one run of two processes beside",
                "times over batches. `batches` is batch equivalence: nothing of it is learnt but",
                "the effective shares. `utilisation`, `use` and `gpu-use` learn the one unknown of",
                "the model from utilisation and step time (averaged Gaussian processes, JSON); the",
                "last two from what monitoring records of jobs, without a step time. `typical` is",
                "the mean of all models, for workloads of which one time is known.",
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
                    ("method", "data", "models", "rows", "q90", "q95", "factor on 1g",
                     "with a probe"),
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
