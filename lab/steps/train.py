"""``python -m lab training-steps --train``: the bundle of training steps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import write_bundle
from berth.predictor.core.provenance import made_by, versions
from berth.predictor.families.graph.latency.features import GRAPH_FEATURES, Floats
from berth.predictor.families.training_step import bundle as bundles
from berth.predictor.families.training_step.bundle import (
    STEPS_SCHEMA,
    StepHead,
    StepManifest,
    StepTraining,
    Width,
    learner_files,
)
from berth.predictor.families.training_step.law import STEP_FEATURES, TERMS
from berth.predictor.learning import trees_onnx as convert
from berth.predictor.learning.folds import folds
from lab.datasets.timm import BENCHMARK, GRAPHS
from lab.graphs.model_runs import DATA
from lab.steps import labels
from lab.steps.card import card
from lab.steps.family import Learnt, fit, held
from lab.steps.labels import Steps
from lab.steps.moved import moved_errors
from lab.steps.to_onnx import check_agreement, to_onnx

GPU, CPU = "rtx-3090-24gb", "epyc-genoa-vm"
LIBRARIES = ("numpy", "onnx", "onnxruntime", "scipy", "xgboost-cpu")
FOLDS = 5
LEVEL = 0.9
STEPS = 5


def train(
    folder: Path,
    *,
    seed: int,
    command: str,
    figures: Mapping[str, float],
    advance: Callable[[str], None] = lambda _: None,
) -> StepManifest:
    """Both heads, their widths from held-out rows, and the bundle. Same data and seed, same id."""
    elsewhere = moved_errors(seed)
    advance("other devices")
    files: dict[str, bytes] = {}
    heads, apart = [], 0.0
    for platform, steps in ((GPU, labels.gpu()), (CPU, labels.cpu())):
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
        training=StepTraining(
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
    trees = convert.to_onnx(learnt.trees, len(STEP_FEATURES))
    process = to_onnx(learnt.process)
    first = convert.check_agreement(trees, learnt.trees, rows)
    return (trees, process), max(first, check_agreement(process, learnt.process, rows))


def _head(platform: str, steps: Steps, learnt: Learnt, seed: int, elsewhere: Floats) -> StepHead:
    parts = []
    everything = np.arange(len(steps))
    for one in folds(steps.runs.architecture.tolist(), FOLDS, seed):
        test = np.array(one)
        parts.append((np.setdiff1d(everything, test), test))
    off = np.abs(held(steps, parts, seed=seed) - np.log(steps.labels[:, 0]))
    plain = next(name for name in sorted(learnt.rates) if name.endswith("nchw"))
    here = Width(log_width=_quantile(off), rows=len(off), split="unseen model")
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
        elsewhere=Width(log_width=moved, rows=len(elsewhere), split="unseen device, no samples"),
    )


def _quantile(off: Floats) -> float:
    """The 90 % conformal quantile: (n + 1) x 0.9 of n, the largest where there are too few."""
    place = int(np.ceil((len(off) + 1) * LEVEL)) - 1
    return float(np.sort(off)[min(place, len(off) - 1)])
