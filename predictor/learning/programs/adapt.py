"""``berth train --adapt``: add a platform to a program bundle from runs of few workloads on it.

With few labels (measured run times) only the prior is adapted: the calibrated roofline of the
platform's kind, CPU or GPU, is shrunk towards the labels. A residual model is trained where there
are enough kernels and it had lower errors on left-out kernels, by the mean (which outliers
dominate) and by the median.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xgboost

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
from berth.predictor.families.program.between_cpus import SHARE_WEIGHT
from berth.predictor.families.program.bundle import Calibration, Labelled, Manifest, OwnTime
from berth.predictor.families.program.features import FEATURES, WORK_FEATURES
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.families.program.range_check import RangeCheck
from berth.predictor.families.program.time_only import is_time_only
from berth.predictor.hardware.ceilings import Point
from berth.predictor.learning.folds import folds
from berth.predictor.learning.onnx_export import check_trees_agree, trees_to_onnx
from berth.predictor.learning.programs.columns import (
    Columns,
    Pair,
    pair_columns,
    pairs_of,
    units_of,
)
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
from berth.predictor.learning.programs.own_time import (
    fit_own_time,
    left_out_errors,
    log_errors,
    start_deviation,
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
    units = units_of(pairs, platform)
    counted = [pair for pair in pairs if not is_time_only(pair.here)]
    if platform.is_gpu and len(counted) < len(pairs):
        raise UsageError(
            f"profile {_uncounted(pairs)!r} lacks counters, which a GPU's calibration needs",
            hint="pilot it again where these can be counted (hardware counters or valgrind)",
        )
    start = manifest.priors[kind]
    fitted, own_range = _without_counters(start, seed), None
    if counted:
        data = pair_columns(counted, platform, platforms)
        fitted = adapted(data, start, seed)
        own_range = _own_range(data, bundles.read_range(source / bundles.RANGE))
    name = f"residual-{platform.name}.onnx"
    onnx = trees_to_onnx(fitted.model.residual, len(FEATURES))
    if counted:
        check_trees_agree(onnx, fitted.model.residual, data.features)
    prior = fitted.model.prior
    own_time = None
    if not platform.is_gpu and not any(platforms[p.here.platform].is_gpu for p in pairs):
        rival = fitted if len(counted) == len(pairs) else None
        own_time = _own_time(
            Predictor.load(source), pairs, Point(platform, units), platforms, rival
        )
    entry = Labelled(
        platform=platform.name,
        cores=0 if platform.is_gpu else units,
        gpus=units if platform.is_gpu else 0,
        rows=len(pairs),
        kernels=len({pair.kernel for pair in pairs}),
        label=f"{len(pairs)} workloads timed there, adapted from the {kind} prior",
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
        own_time=own_time,
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


def _uncounted(pairs: Sequence[Pair]) -> str:
    return next(pair.here.name for pair in pairs if is_time_only(pair.here))


def _own_time(
    predictor: Predictor,
    pairs: Sequence[Pair],
    point: Point,
    platforms: Mapping[str, Platform],
    fitted: Adapted | None,
) -> OwnTime | None:
    """Return the correction of a CPU's predictions from CPU to CPU; None: the calibrated roofline
    ``fitted`` has lower errors on left-out kernels.

    ``fitted`` is None where counters are missing: then only the correction can be used.
    """
    kernels = tuple(pair.kernel for pair in pairs)
    deviation = start_deviation(pairs, point.platform, platforms)

    def off(share_weight: float) -> tuple[Floats, Floats]:
        errors = log_errors(predictor, pairs, point, platforms, share_weight)
        return errors, np.abs(left_out_errors(errors, kernels, deviation))

    share_weight, (errors, left_out) = SHARE_WEIGHT, off(SHARE_WEIGHT)
    if fitted is None or len(set(kernels)) < ENOUGH_KERNELS:
        return fit_own_time(errors, kernels, deviation, share_weight)
    plain, plain_left_out = off(0.0)
    if _lower(plain_left_out, left_out, kernels):
        share_weight, errors, left_out = 0.0, plain, plain_left_out
    if len(fitted.left_out) and _lower(fitted.left_out, left_out, kernels):
        return None
    return fit_own_time(errors, kernels, deviation, share_weight)


def _lower(first: Floats, second: Floats, kernels: tuple[str, ...]) -> bool:
    """Return whether errors are lower by their mean and by their median."""
    weights = kernel_weights(kernels)
    lower_mean = float(weights @ first) < float(weights @ second)
    return lower_mean and float(np.median(first)) < float(np.median(second))


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
    model_of_prior = Model(prior, _silent(data.features, seed), 0.0)
    return Adapted(model_of_prior, quantile, quantile, has_residual=False, left_out=left_out)


def _silent(features: Floats, seed: int) -> xgboost.XGBRegressor:
    """Return an ensemble that corrects nothing."""
    nothing = np.zeros(len(features))
    return fit_ensemble(features, nothing, nothing + 1, Settings(rounds=1, depth=1), seed)


def _without_counters(kind: Calibration, seed: int) -> Adapted:
    """Return the prior of the kind, for profiles without counters."""
    prior = Prior(kind.bias, kind.carry, kind.reduction_s)
    model = Model(prior, _silent(np.zeros((2, len(FEATURES))), seed), 0.0)
    quantile = kind.score_quantile
    return Adapted(model, quantile, quantile, has_residual=False, left_out=np.zeros(0))


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
    if entry.own_time is not None:
        how = (
            "from CPU to CPU by the program's own time, times "
            f"{math.exp(entry.own_time.log_factor):.3f}"
        )
    else:
        residual = "prior and a residual" if fitted.has_residual else "the prior alone"
        how = f"{residual}, bias {entry.prior.bias:+.3f}, carry {entry.prior.carry:.2f}"
    return (
        f"\n## Adapted to `{entry.platform}`\n"
        f"By `{command}`: {entry.rows} workloads ({entry.kernels} kernels) timed there; {how}.\n"
    )
