"""``berth train --adapt``: add a platform to a program bundle from runs of few workloads on it.

With few labels (measured run times) only the prior is adapted: the calibrated roofline of the
platform's kind, CPU or GPU, is shrunk towards the labels. A residual model is trained where there
are enough kernels and it had lower errors on left-out kernels, by the mean (which outliers
dominate) and by the median.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.pilot.progress import steps
from berth.pilot.version import VERSION
from berth.predictor.core.arrays import Floats
from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import now, write_bundle
from berth.predictor.core.intervals import DIFFICULTY_FLOOR, difficulty, group_quantile
from berth.predictor.families.program import bundle as bundles
from berth.predictor.families.program.bundle import Calibration, Labelled, Manifest
from berth.predictor.families.program.features import FEATURES, WORK_FEATURES
from berth.predictor.families.program.range_check import RangeCheck
from berth.predictor.learning.folds import folds
from berth.predictor.learning.onnx_export import check_trees_agree, trees_to_onnx
from berth.predictor.learning.programs.columns import Columns, pair_columns, pairs_of, units_of
from berth.predictor.learning.programs.model import (
    ENOUGH_KERNELS,
    Model,
    Prior,
    Settings,
    check,
    fit_ensemble,
    honest_quantile,
    kernel_weights,
    left_out_scores,
    shrunk_prior,
)

RESIDUAL_KERNELS = 16
"""Number of kernels from which on a residual model is tried; fewer do not generalise."""
CAUTIOUS = Settings(
    rounds=150, depth=2, rate=0.05, least_weight=3.0, ridge=1.0, column_share=0.3, dead_zone=0.15
)
"""Hyper-parameters of the residual model for few labels."""
_FOLDS = 8


@dataclass(frozen=True, slots=True)
class Adapted:
    """The model of a platform fitted to few measured times, with the quantiles for its
    intervals."""

    model: Model
    score_quantile: float
    """Quantile of scores (absolute log error over difficulty) for intervals of the model."""
    prior_quantile: float
    """Quantile of scores for intervals of the prior alone."""
    has_residual: bool
    left_out: Floats
    """[rows] absolute log error of each row by a model without the row's kernel; empty for few
    kernels."""


def adapt(
    source: Path,
    profiles: Sequence[Profile],
    platform: Platform,
    platforms: Mapping[str, Platform],
    folder: Path,
    *,
    seed: int,
    command: str,
    reference: str | None = None,
) -> Manifest:
    """Write to ``folder`` the bundle ``source``, with ``platform`` calibrated by runs of few
    workloads on it.

    ``profiles`` holds runs of the same workloads on a reference and on ``platform``. ``reference``:
    platform whose pilot runs are then predicted as accurately as those of the training reference.

    Raises UsageError for profiles without a counterpart, or where the bundle has no prior for the
    kind of platform; then nothing is written.
    """
    manifest = bundles.verify(source)
    kind = "gpu" if platform.is_gpu else "cpu"
    if kind not in manifest.priors:
        raise UsageError(f"the bundle {manifest.id} has no prior for {kind} platforms")
    pairs = pairs_of(profiles, platform, platforms)
    data = pair_columns(pairs, platform, platforms)
    fitted = adapted(data, manifest.priors[kind], seed)
    units = units_of(pairs, platform)
    name = f"residual-{platform.name}.onnx"
    onnx = trees_to_onnx(fitted.model.residual, len(FEATURES))
    check_trees_agree(onnx, fitted.model.residual, data.features)
    prior = fitted.model.prior
    own_range = _own_range(data, bundles.read_range(source / bundles.RANGE))
    entry = Labelled(
        platform=platform.name,
        cores=0 if platform.is_gpu else units,
        gpus=units if platform.is_gpu else 0,
        rows=len(data),
        kernels=len(set(data.kernels)),
        label=f"{len(data)} workloads timed there, adapted from the {kind} prior",
        model=name,
        prior=Calibration(
            bias=prior.bias,
            carry=prior.carry,
            reduction_s=prior.reduction_s,
            score_quantile=fitted.prior_quantile,
        ),
        dead_zone=fitted.model.dead_zone,
        score_quantile=fitted.score_quantile,
        hardware=platform,
        reference=reference,
        range_file=None if own_range is None else f"range-{platform.name}.json",
    )
    others = tuple(e for e in manifest.labelled if e.platform != platform.name)
    files = {f: (source / f).read_bytes() for f in bundles.files_of(others)}
    files[name] = onnx
    if entry.range_file is not None and own_range is not None:
        files[entry.range_file] = bundles.write_range(own_range).encode()
    files[CARD] = ((source / CARD).read_text() + _card(entry, fitted, command)).encode()
    updated = manifest.model_copy(
        update={
            "id": "",
            "created": now(),
            "command": command,
            "berth_version": VERSION,
            # First, because the last platform of a kind gives the difficulty of rows elsewhere.
            "labelled": (entry, *others),
            "files": {},
        }
    )
    return write_bundle(folder, updated, files, bundles.load)


def _own_range(data: Columns, source: RangeCheck) -> RangeCheck | None:
    """Return the range check that covers these kernels and those of the bundle; None for few
    kernels."""
    if len(set(data.kernels)) < RESIDUAL_KERNELS:
        return None
    rows = data.features[:, : len(WORK_FEATURES)]
    return RangeCheck.fit(WORK_FEATURES, rows, data.kernels).with_rows(source.raw_rows())


def adapted(data: Columns, kind: Calibration, seed: int) -> Adapted:
    """Return the calibrated roofline shrunk towards ``data``, with a residual model where it lowers
    held-out errors."""
    start = _start(data, Prior(kind.bias, kind.carry, kind.reduction_s))
    prior = shrunk_prior(data, start)
    quantile = honest_quantile(data, start, kind.score_quantile)
    left_out: Floats = np.zeros(0)
    if len(set(data.kernels)) >= RESIDUAL_KERNELS:
        check(data)
        off, scores = _with_residual(data, start, seed)
        weights = kernel_weights(data.kernels)
        alone = left_out_scores(data, start) * DIFFICULTY_FLOOR
        better = float(weights @ off) < float(weights @ alone)
        if better and float(np.median(off)) < float(np.median(alone)):
            model = _residual_model(data, prior, seed)
            own = max(group_quantile(list(scores), data.kernels), 1e-3)
            return Adapted(model, own, quantile, has_residual=True, left_out=off)
        left_out = alone
    nothing = np.zeros(len(data))
    silent = fit_ensemble(data.features, nothing, nothing + 1, Settings(rounds=1, depth=1), seed)
    model_of_prior = Model(prior, silent, 0.0)
    return Adapted(model_of_prior, quantile, quantile, has_residual=False, left_out=left_out)


def _start(data: Columns, kind: Prior) -> Prior:
    """Return the calibration to start from: that of the kind (CPU, GPU), or the reference's
    efficiency times a factor.

    The second is taken where its mean and median errors on left-out kernels are lower: nodes of one
    architecture share effects that the roofline does not model.
    """
    if len(set(data.kernels)) < ENOUGH_KERNELS:
        return kind
    as_reference = Prior(0.0, 1.0, kind.reduction_s)
    weights = kernel_weights(data.kernels)
    usual, same = (left_out_scores(data, start) for start in (kind, as_reference))
    better = float(weights @ same) < float(weights @ usual)
    return as_reference if better and float(np.median(same)) < float(np.median(usual)) else kind


def _residual_model(data: Columns, prior: Prior, seed: int) -> Model:
    labels, shares = prior.residual(data)
    weights = shares * kernel_weights(data.kernels)
    ensemble = fit_ensemble(data.features, labels, weights, CAUTIOUS, seed)
    return Model(prior, ensemble, CAUTIOUS.dead_zone)


def _with_residual(data: Columns, start: Prior, seed: int) -> tuple[Floats, Floats]:
    """Return [rows] held-out absolute log errors of calibration plus residual model, and the same
    over difficulty.

    Kernels are kept together in a fold.
    """
    off, scores = np.zeros((2, len(data)))
    for held in steps("folds left out in turn", list(folds(data.kernels, _FOLDS, seed))):
        rest, rows = data.take(np.setdiff1d(np.arange(len(data)), held)), data.take(held)
        model = _residual_model(rest, shrunk_prior(rest, start), seed)
        guess = model.log_time(rows)
        off[held] = np.abs(rows.log_time - guess)
        hard = [difficulty(change) for change in guess - model.prior.log_time(rows)]
        scores[held] = off[held] / np.array(hard)
    return off, scores


def _card(entry: Labelled, fitted: Adapted, command: str) -> str:
    residual = "prior and a residual" if fitted.has_residual else "the prior alone"
    return (
        f"\n## Adapted to `{entry.platform}`\n"
        f"By `{command}`: {entry.rows} workloads ({entry.kernels} kernels) timed there; "
        f"{residual}, bias {entry.prior.bias:+.3f}, carry {entry.prior.carry:.2f}.\n"
    )
