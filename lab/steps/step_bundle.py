"""``python -m lab training-steps --train``: the bundle of training steps."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from berth.predictor.core.bundle import CARD, LogWidth, Training
from berth.predictor.core.bundle_writing import made_by, versions, write_bundle
from berth.predictor.core.intervals import LEVEL, group_quantile
from berth.predictor.families.graph.latency.features import GRAPH_FEATURES
from berth.predictor.families.training_step import bundle as bundles
from berth.predictor.families.training_step.bundle import (
    STEPS_SCHEMA,
    StepHead,
    StepManifest,
    learner_files,
)
from berth.predictor.families.training_step.step_costs import STEP_FEATURES, TERMS
from lab.datasets.timm import BENCHMARK, GRAPHS
from lab.graphs.model_runs import DATA
from lab.ground.evaluate import Family, held_out
from lab.ground.onnx_export import agreement
from lab.ground.report import markdown_table, model_card, source_lines
from lab.ground.table import Floats
from lab.ground.trees_as_onnx import check_trees_agree, trees_to_onnx
from lab.latency.timm_runs import MODEL
from lab.steps import step_rows
from lab.steps.fit_steps import Learnt, fit
from lab.steps.moved_rates import moved_errors
from lab.steps.step_rows import Steps

GPU, CPU = "rtx-3090-24gb", "epyc-genoa-vm"
LIBRARIES = ("numpy", "onnx", "onnxruntime", "scipy", "xgboost-cpu")
TOLERANCE = 1e-6
"""Of the process, in log seconds."""
STEPS = 5


def train(
    folder: Path,
    *,
    seed: int,
    command: str,
    figures: Mapping[str, float],
    advance: Callable[..., None] = lambda *_: None,
) -> StepManifest:
    """Return both heads, their widths from held-out rows, and the bundle. Same data and seed, same
    id."""
    elsewhere = moved_errors(seed)
    advance("other devices")
    files: dict[str, bytes] = {}
    heads, apart = [], 0.0
    for platform, steps in ((GPU, step_rows.gpu()), (CPU, step_rows.cpu())):
        learnt = fit(steps, seed=seed)
        trees, process = learner_files(platform)
        made, off = _converted(learnt, learnt.features(steps))
        files[trees], files[process] = made
        apart = max(apart, off)
        advance(platform)
        heads.append(_head(platform, steps, learnt, seed, elsewhere[platform]))
        advance(f"{platform}, held out")
    manifest = StepManifest(
        schema=STEPS_SCHEMA,
        **made_by(command, figures),
        terms=TERMS,
        graph_features=GRAPH_FEATURES,
        features=STEP_FEATURES,
        heads=tuple(heads),
        training=Training(
            sources={
                **{d.path: d.sha256 for d in (BENCHMARK, GRAPHS)},
                DATA.name: hashlib.sha256(DATA.read_bytes()).hexdigest(),
            },
            seed=seed,
            libraries=versions(LIBRARIES),
        ),
    )
    files[CARD] = card(manifest, apart).encode()
    return write_bundle(folder, manifest, files, load=bundles.load)


def _converted(learnt: Learnt, rows: Floats) -> tuple[tuple[bytes, bytes], float]:
    assert learnt.trees is not None  # noqa: S101 - `fit` was asked for both
    assert learnt.process is not None  # noqa: S101
    trees, process = trees_to_onnx(learnt.trees, len(STEP_FEATURES)), learnt.process.onnx()
    first = check_trees_agree(trees, learnt.trees, rows)
    expected = learnt.process(rows)
    return (trees, process), max(
        first, agreement(process, {"features": rows}, expected, TOLERANCE)
    )  # fmt: skip


def _shipped(train: Steps, test: Steps, seed: int) -> Floats:
    return fit(train, seed=seed).predict(test)


def _head(platform: str, steps: Steps, learnt: Learnt, seed: int, elsewhere: Floats) -> StepHead:
    held = held_out(Family("shipped", _shipped), steps, MODEL.folds(steps.runs, seed), seed=seed)
    off = np.abs(held.log_predicted - np.log(steps.labels[held.rows, 0]))
    plain = next(name for name in sorted(learnt.rates) if name.endswith("nchw"))
    here = LogWidth(
        log_width=group_quantile(off.tolist(), steps.runs.architecture[held.rows].tolist()),
        rows=len(off),
        split="unseen model",
    )
    moved = max(_quantile(elsewhere), here.log_width)
    return StepHead(
        platform=platform,
        is_gpu=platform == GPU,
        cores=1,
        precision=str(steps.runs.precision[0]),
        rates=tuple(float(rate) for rate in learnt.rates[plain]),
        rows=len(steps),
        models=len(set(steps.runs.architecture.tolist())),
        here=here,
        elsewhere=LogWidth(log_width=moved, rows=len(elsewhere), split="unseen device, no samples"),
    )


def _quantile(off: Floats) -> float:
    """Return the 90 % conformal quantile: (n + 1) x 0.9 of n, the largest where there are too
    few."""
    place = int(np.ceil((len(off) + 1) * LEVEL)) - 1
    return float(np.sort(off)[min(place, len(off) - 1)])


def card(manifest: StepManifest, apart: float) -> str:
    """``CARD.md`` as text; ``apart``: largest difference of ONNX from what was fitted."""
    rows = [
        (
            head.platform, str(head.rows), str(head.models), f"{width.split} ({width.rows} rows)",
            f"{math.exp(width.log_width):.2f}",
        )
        for head in manifest.heads for width in (head.here, head.elsewhere)
    ]  # fmt: skip
    return model_card(
        "training steps of model graphs", manifest,
        {
            "What it is": [
                "For each device measured: rates of six parts of a step's work, and the mean of",
                "boosted trees and a Gaussian process over what those rates miss (ONNX; largest",
                f"difference from the trainer's own output {apart:.1e} in log seconds). On other",
                "devices the rates are moved by the ratio of roofs.",
            ],
            "Data": [
                *source_lines(manifest.training.sources), "",
                "timm's results: Apache-2.0; one GPU, mixed precision, SGD with momentum, the",
                "largest batch that fitted. Ours: one core of a virtual machine, fp32, SGD with",
                "momentum, small models at batch 2 to 8.",
            ],
            "Widths": [
                "Factor from the middle to an end of the 90 % interval, of rows left out of every",
                "fit. Other GPUs: of inference on two of them, as a stand-in. Other CPUs: of the",
                "move from the GPU to our core, the only one there is.", "",
                *markdown_table(("device", "rows", "models", "split", "factor"), rows),
            ],
            "What is not verified": [
                "Training on any GPU but the RTX 3090, on several cores, in other precisions, with",
                "other optimisers, on several GPUs; what loading data takes.",
            ],
        },
        command="python -m lab training-steps --report DIR",
    )  # fmt: skip
