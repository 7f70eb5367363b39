"""``berth train --adapt``: add a platform to a program bundle from runs of few workloads on it.

The labels (measured run times) shrink the calibrated roofline of the platform's kind, CPU or GPU,
towards them. From CPU to CPU they correct the program's own time in its place, unless the roofline
does better on kernels left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.pilot.version import VERSION
from berth.predictor.core.arrays import Floats
from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import now, write_bundle
from berth.predictor.core.intervals import DIFFICULTY_FLOOR
from berth.predictor.families.program import bundle as bundles
from berth.predictor.families.program.between_cpus import SHARE_WEIGHT
from berth.predictor.families.program.bundle import Calibration, Labelled, Manifest, OwnTime
from berth.predictor.families.program.features import WORK_FEATURES
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.families.program.range_check import RangeCheck
from berth.predictor.families.program.time_only import is_time_only
from berth.predictor.hardware.ceilings import Allocation
from berth.predictor.learning.programs.columns import (
    LabelRows,
    ProfilePair,
    pair_columns,
    pairs_of,
    units_of,
)
from berth.predictor.learning.programs.own_time import (
    fit_own_time,
    left_out_errors,
    log_errors,
    start_deviation,
)
from berth.predictor.learning.programs.prior import (
    ENOUGH_KERNELS,
    Prior,
    honest_quantile,
    kernel_weights,
    left_out_scores,
    shrunk_prior,
)

MANY_KERNELS = 16
"""Number of kernels from which on the roofline may replace the program's own time, and programs are
compared with these kernels, too."""


@dataclass(frozen=True, slots=True)
class FittedCalibration:
    """The calibrated roofline of a platform fitted to few measured times."""

    prior: Prior
    quantile: float
    """90 % quantile of scores (absolute log error over difficulty)."""
    left_out: Floats
    """[rows] absolute log error of each row by a roofline fitted without the row's kernel; empty
    for fewer than ``MANY_KERNELS`` kernels."""


def adapt(
    source: Path,
    profiles: Sequence[Profile],
    platform: Platform,
    platforms: Mapping[str, Platform],
    folder: Path,
    *,
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
    counted = [pair for pair in pairs if not is_time_only(pair.reference)]
    if platform.is_gpu and len(counted) < len(pairs):
        raise UsageError(
            f"profile {_uncounted(pairs)!r} lacks counters, which a GPU's calibration needs",
            hint="pilot it again where these can be counted (hardware counters or valgrind)",
        )
    start = manifest.priors[kind]
    fitted = FittedCalibration(_prior_of(start), start.score_quantile, NOTHING)
    own_range, own_time = None, None
    if counted:
        data = pair_columns(counted, platform, platforms)
        fitted = adapted(data, start)
        own_range = _own_range(data, bundles.read_range(source / bundles.RANGE))
    if not platform.is_gpu and not any(platforms[p.reference.platform].is_gpu for p in pairs):
        rival = fitted if len(counted) == len(pairs) else None
        own_time = _own_time(
            Predictor.load(source), pairs, Allocation(platform, units), platforms, rival
        )
    entry = Labelled(
        platform=platform.name,
        cores=0 if platform.is_gpu else units,
        gpus=units if platform.is_gpu else 0,
        rows=len(pairs),
        kernels=len({pair.kernel for pair in pairs}),
        label=f"{len(pairs)} workloads timed there, adapted from the {kind} prior",
        prior=Calibration(
            bias=fitted.prior.bias,
            carry=fitted.prior.carry,
            reduction_s=fitted.prior.reduction_s,
            score_quantile=fitted.quantile,
        ),
        score_quantile=fitted.quantile,
        hardware=platform,
        reference=reference,
        own_time=own_time,
        range_file=None if own_range is None else f"range-{platform.name}.json",
    )
    others = tuple(e for e in manifest.labelled if e.platform != platform.name)
    files = {f: (source / f).read_bytes() for f in bundles.files_of(others)}
    if entry.range_file is not None and own_range is not None:
        files[entry.range_file] = bundles.write_range(own_range).encode()
    files[CARD] = ((source / CARD).read_text() + _card(entry, command)).encode()
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


def _uncounted(pairs: Sequence[ProfilePair]) -> str:
    return next(pair.reference.name for pair in pairs if is_time_only(pair.reference))


def _own_time(
    predictor: Predictor,
    pairs: Sequence[ProfilePair],
    point: Allocation,
    platforms: Mapping[str, Platform],
    fitted: FittedCalibration | None,
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
    weights = kernel_weights(kernels)
    lower_mean = float(weights @ first) < float(weights @ second)
    return lower_mean and float(np.median(first)) < float(np.median(second))


def _own_range(data: LabelRows, source: RangeCheck) -> RangeCheck | None:
    if len(set(data.kernels)) < MANY_KERNELS:
        return None
    rows = data.features[:, : len(WORK_FEATURES)]
    return RangeCheck.fit(WORK_FEATURES, rows, data.kernels).with_rows(source.raw_rows())


def adapted(data: LabelRows, kind: Calibration) -> FittedCalibration:
    """Return the calibrated roofline shrunk towards ``data``.

    It starts from that of the kind (CPU, GPU), or from the reference's efficiency times a factor
    where this has lower mean and median errors on left-out kernels: nodes of one architecture share
    effects that the roofline does not model.
    """
    start, kernels = _prior_of(kind), len(set(data.kernels))
    scores = left_out_scores(data, start)
    if kernels >= ENOUGH_KERNELS:
        as_reference = Prior(0.0, 1.0, kind.reduction_s)
        others = left_out_scores(data, as_reference)
        if _lower(others, scores, data.kernels):
            start, scores = as_reference, others
    quantile = honest_quantile(scores, data.kernels, kind.score_quantile)
    left_out = scores * DIFFICULTY_FLOOR if kernels >= MANY_KERNELS else NOTHING
    return FittedCalibration(shrunk_prior(data, start), quantile, left_out)


def _prior_of(kind: Calibration) -> Prior:
    return Prior(kind.bias, kind.carry, kind.reduction_s)


NOTHING: Floats = np.zeros(0)


def _card(entry: Labelled, command: str) -> str:
    if entry.own_time is not None:
        how = (
            "from CPU to CPU by the program's own time, times "
            f"{math.exp(entry.own_time.log_factor):.3f}"
        )
    else:
        how = f"by the roofline, bias {entry.prior.bias:+.3f}, carry {entry.prior.carry:.2f}"
    return (
        f"\n## Adapted to `{entry.platform}`\n"
        f"By `{command}`: {entry.rows} workloads ({entry.kernels} kernels) timed there; {how}.\n"
    )
