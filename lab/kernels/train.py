"""``python -m lab programs --train``: from profiles and labels to the default bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import write_bundle
from berth.predictor.core.intervals import group_quantile
from berth.predictor.core.provenance import made_by, versions
from berth.predictor.families.program.bundle import (
    RANGE,
    Calibration,
    Labelled,
    Manifest,
    Training,
    load,
    write_range,
)
from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.program.features import FEATURES, WORK_FEATURES
from berth.predictor.families.program.range_check import RangeCheck
from berth.predictor.learning.folds import folds
from berth.predictor.learning.programs.columns import Columns, columns
from berth.predictor.learning.programs.model import Settings, fit, fit_prior
from berth.predictor.learning.trees_onnx import check_agreement, to_onnx
from lab.datasets.rajaperf import LABELS
from lab.kernels.card import card
from lab.kernels.examples import Example, digest
from lab.kernels.select import CANDIDATES, fit_model, select

FOLDS = 10
LIBRARIES = ("numpy", "onnxmltools", "onnxruntime", "xgboost-cpu")


@dataclass(frozen=True, slots=True)
class Trained:
    """One labelled platform's part of a bundle."""

    entry: Labelled
    onnx: bytes
    disagreement: float
    settings: Settings


def train(
    examples: Sequence[Example],
    platforms: Mapping[str, Platform],
    folder: Path,
    *,
    seed: int,
    command: str,
    figures: Mapping[str, float],
    candidates: Sequence[Settings] = CANDIDATES,
    advance: Callable[[str], None] = lambda _: None,
) -> Manifest:
    """Train on ``examples`` and write the bundle. The same input and seed give the same id.

    ``advance`` is told of each step done. Raises UsageError for data that nothing can be learnt
    from; nothing is written then.
    """
    references = {example.profile.platform for example in examples}
    if len(references) != 1:
        raise UsageError(
            f"the profiles are of several platforms: {', '.join(sorted(references))}",
            hint="train on profiles of one reference platform",
        )
    (name,) = references
    if name not in platforms:
        raise UsageError(
            f"the profiles' platform {name!r} is not known", hint="`berth platform add` it first"
        )
    reference = platforms[name]
    parts, work_rows, typical = [], None, 0.0
    for platform, label in LABELS.items():
        data = columns(examples, platforms[platform], reference)
        parts.append(_train_one(data, platforms[platform], label, seed, candidates))
        work_rows = data.features[:, : len(WORK_FEATURES)]
        typical = float(data.log_efficiency.mean())
        advance(platform)
    if work_rows is None:
        raise UsageError("there are no labelled platforms")
    kernels = tuple(example.kernel for example in examples)
    check = RangeCheck.fit(WORK_FEATURES, work_rows, kernels)
    manifest = Manifest(
        schema=_SCHEMA,
        **made_by(command, figures),
        reference=name,
        features=FEATURES,
        labelled=tuple(part.entry for part in parts),
        typical_log_efficiency=typical,
        priors=_priors(parts, platforms),
        training=Training(
            profiles_sha256=digest(
                e.profile.model_dump_json(by_alias=True, exclude_none=True) for e in examples
            ),
            labels_sha256=digest(
                f"{e.kernel} {e.size} {sorted(e.seconds.items())}" for e in examples
            ),
            rows=len(examples),
            kernels=len(set(kernels)),
            sizes=tuple(sorted({float(e.size) for e in examples})),
            seed=seed,
            hyperparameters={
                f"{part.entry.platform}.{key}": value
                for part in parts
                for key, value in part.settings.as_dict().items()
            },
            libraries=versions(LIBRARIES),
        ),
    )
    files = {part.entry.model: part.onnx for part in parts}
    files[RANGE] = write_range(check).encode()
    files[CARD] = card(manifest, [part.disagreement for part in parts]).encode()
    written = write_bundle(folder, manifest, files, load)
    advance("bundle")
    return written


_SCHEMA = "berth.bundle/1"


def _train_one(
    data: Columns, platform: Platform, label: str, seed: int, candidates: Sequence[Settings]
) -> Trained:
    chosen = select(data, count=FOLDS, seed=seed, candidates=candidates, fitter=fit_model)
    model = fit(data, chosen.settings, seed)
    onnx = to_onnx(model.residual, len(FEATURES))
    apart = check_agreement(onnx, model.residual, data.features)
    prior_scores = _prior_scores(data, chosen.settings, seed)
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
            score_quantile=group_quantile(list(prior_scores), data.kernels),
        ),
        dead_zone=model.dead_zone,
        score_quantile=group_quantile(list(chosen.scores), data.kernels),
        hardware=platform,
    )
    return Trained(entry, onnx, apart, chosen.settings)


def _prior_scores(data: Columns, settings: Settings, seed: int) -> Floats:
    """Scores of the prior alone, of kernels left out; the residual only says how hard each is."""
    scores = np.zeros(len(data))
    for held in folds(data.kernels, FOLDS, seed):
        rest = data.take(np.setdiff1d(np.arange(len(data)), held))
        rows = data.take(held)
        (predict,) = fit_model(rest, [settings], seed)
        off = np.abs(rows.log_time - fit_prior(rest).log_time(rows))
        scores[held] = off / predict(rows).difficulty
    return scores


def _priors(parts: Sequence[Trained], platforms: Mapping[str, Platform]) -> dict[str, Calibration]:
    """The prior of platforms without labels: that of the labelled one of the same kind."""
    return {
        "gpu" if platforms[part.entry.platform].is_gpu else "cpu": part.entry.prior
        for part in parts
    }
