"""``python -m lab programs --train``: from profiles and labels to the default bundle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from berth.pilot.platform import Platform
from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import made_by, versions, write_bundle
from berth.predictor.core.intervals import DIFFICULTY_FLOOR, group_quantile
from berth.predictor.families.program.bundle import (
    Calibration,
    Labelled,
    Manifest,
    ProgramTraining,
    load,
)
from berth.predictor.families.program.features import FEATURES, WORK_FEATURES
from berth.predictor.families.program.range_check import RANGE, RangeCheck
from berth.predictor.learning.programs.columns import LabelRows
from lab.datasets.rajaperf import LABELS
from lab.ground.report import library_line, markdown_table, model_card
from lab.ground.splits import folds
from lab.ground.trees_as_onnx import check_trees_agree, trees_to_onnx
from lab.kernels.examples import Example, columns, digest
from lab.kernels.residual_model import PARAMETERS, ROUNDS, dead_zone_of, fit, held_out

FOLDS = 10
LIBRARIES = ("numpy", "onnxmltools", "onnxruntime", "xgboost-cpu")
_SCHEMA = "berth.bundle/1"


@dataclass(frozen=True, slots=True)
class Trained:
    """One labelled platform's part of a bundle."""

    entry: Labelled
    onnx: bytes
    disagreement: float


def train(
    examples: Sequence[Example],
    platforms: Mapping[str, Platform],
    folder: Path,
    *,
    seed: int,
    command: str,
    figures: Mapping[str, float],
    rounds: int = ROUNDS,
) -> Manifest:
    """Train on ``examples`` and write the bundle. The same input and seed give the same id."""
    reference = platforms[examples[0].profile.platform]
    data = {name: columns(examples, platforms[name], reference) for name in LABELS}
    parts = [
        _train_one(data[name], platforms[name], label, seed, rounds)
        for name, label in LABELS.items()
    ]
    last = data[list(LABELS)[-1]]
    check = RangeCheck.fit(WORK_FEATURES, last.features[:, : len(WORK_FEATURES)], last.kernels)
    manifest = Manifest(
        schema=_SCHEMA,
        **made_by(command, figures),
        reference=reference.name,
        features=FEATURES,
        labelled=tuple(part.entry for part in parts),
        typical_log_efficiency=float(last.log_efficiency.mean()),
        priors={
            "gpu" if part.entry.gpus else "cpu": part.entry.prior
            for part in parts
            if part.entry.prior is not None
        },
        training=ProgramTraining(
            profiles_sha256=digest(
                e.profile.model_dump_json(by_alias=True, exclude_none=True) for e in examples
            ),
            labels_sha256=digest(
                f"{e.kernel} {e.size} {sorted(e.seconds.items())}" for e in examples
            ),
            rows=len(examples),
            kernels=len(set(last.kernels)),
            sizes=tuple(sorted({float(e.size) for e in examples})),
            seed=seed,
            hyperparameters={"rounds": rounds, **PARAMETERS},
            libraries=versions(LIBRARIES),
        ),
    )
    files = {str(part.entry.model): part.onnx for part in parts}
    files[RANGE] = check.text().encode()
    files[CARD] = card(manifest, max(part.disagreement for part in parts)).encode()
    return write_bundle(folder, manifest, files, load)


def _train_one(data: LabelRows, platform: Platform, label: str, seed: int, rounds: int) -> Trained:
    fitted = partial(fit, seed=seed, dead_zone=dead_zone_of(platform), rounds=rounds)
    out = held_out(data, folds(data.kernels, FOLDS, seed), fitted)
    model = fitted(data)
    onnx = trees_to_onnx(model.residual, len(FEATURES))
    apart = check_trees_agree(onnx, model.residual, data.features)
    alone = np.abs(data.log_time - out.log_roofline) / out.difficulty
    entry = Labelled(
        platform=platform.name,
        cores=0 if platform.is_gpu else 1,
        gpus=1 if platform.is_gpu else 0,
        rows=len(data),
        kernels=len(set(data.kernels)),
        label=label,
        model=f"residual-{platform.name}.onnx",
        prior=Calibration(
            bias=model.prior.bias,
            carry=model.prior.carry,
            reduction_s=model.prior.reduction_s,
            score_quantile=group_quantile(list(alone), data.kernels),
        ),
        dead_zone=model.dead_zone,
        score_quantile=group_quantile(list(out.scores(data)), data.kernels),
        hardware=platform,
    )
    return Trained(entry, onnx, apart)


def card(manifest: Manifest, disagreement: float) -> str:
    """``CARD.md`` as text."""
    training = manifest.training

    def factor(score_quantile: float) -> str:
        return f"{math.exp(score_quantile * DIFFICULTY_FLOOR):.2f}"

    calibration = [
        (e.platform, f"{e.prior.bias:+.3f}", f"{e.prior.carry:.2f}",
         f"{e.prior.reduction_s * 1e6:.0f} us", factor(e.score_quantile),
         factor(e.prior.score_quantile))
        for e in manifest.labelled
        if e.prior is not None
    ]  # fmt: skip
    return model_card(
        "programs from one pilot",
        manifest,
        {
            "What it is": [
                "A roofline prior (floating point, instructions, four memory levels, branches,",
                "launches, atomics, reductions) with three calibrated numbers a platform, times a",
                "residual learnt by gradient boosting on log time. Served by onnxruntime; the",
                "largest difference from the trainer's own output over all training rows, with and",
                f"without gaps, is {disagreement:.1e}.",
            ],
            "Data": [
                f"- Profiles: {training.rows} ({training.kernels} kernels at sizes "
                f"{', '.join(f'{s:.0f}' for s in training.sizes)}), measured by Berth's",
                f"  own pilot on `{manifest.reference}`; digest `{training.profiles_sha256[:16]}`.",
                "- Labels: RAJAPerf, LLNL thicket and thicket-tutorial (MIT):",
                *(f"  - `{e.platform}`: {e.label}; {e.rows} rows." for e in manifest.labelled),
            ],
            "Calibration": [
                *markdown_table(
                    ("platform", "bias", "carry", "a reduction", "90 % interval, factor",
                     "prior alone"),
                    calibration,
                ),
                "",
                "Quantiles are of kernels left out (10 folds over kernels, which weigh the same).",
                "The factor is of a program whose residual is nil; it grows with its size.",
            ],
            "Limits": [
                "- Labels are one Quartz core and one V100. Other core counts are scaled by the",
                "  roofline. GPUs without labels get the prior only (`python -m lab unseen-gpus`);",
                "  CPUs without labels are predicted from the program's own time and the speeds of",
                "  the cores (`python -m lab cpus`). Neither is enforced by default.",
                "- A GPU prediction is of an equivalent GPU build, data resident on the device.",
                "- The training programs are small loops; programs unlike them are abstained from.",
                library_line(training.seed, training.libraries),
            ],
        },
        figures="Leave-one-kernel-out over all kernels and sizes: prior, residual and interval are "
        "those of the other kernels.",
        command="python -m lab programs --report DIR",
    )  # fmt: skip
