"""``berth train --adapt``: add a platform to a program bundle from runs of few workloads on it.

On a CPU the labels (measured run times) of programs correct their own time on another CPU. From or
to a GPU, and for loops, labels shrink the calibrated roofline of the platform's kind towards them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.pilot.version import VERSION
from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import now, write_bundle
from berth.predictor.families.program import bundle as bundles
from berth.predictor.families.program.bundle import Calibration, Labelled, Manifest
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.families.program.work import missing_counters
from berth.predictor.hardware.ceilings import Allocation
from berth.predictor.learning.programs.columns import LabelRows, pair_columns, pairs_of, units_of
from berth.predictor.learning.programs.own_time import are_benchmark, own_time_of
from berth.predictor.learning.programs.prior import honest_quantile, shrunk_prior


def adapt(
    source: Path,
    profiles: Sequence[Profile],
    platform: Platform,
    platforms: Mapping[str, Platform],
    folder: Path,
    *,
    command: str,
) -> Manifest:
    """Write to ``folder`` the bundle ``source``, with ``platform`` calibrated by runs of few
    workloads on it.

    ``profiles`` holds runs of the same workloads on a reference and on ``platform``.

    Raises UsageError for profiles without a counterpart, or where the bundle has no prior for the
    kind of platform; then nothing is written.
    """
    manifest = bundles.verify(source)
    kind = "gpu" if platform.is_gpu else "cpu"
    if kind not in manifest.priors:
        raise UsageError(f"the bundle {manifest.id} has no prior for {kind} platforms")
    pairs = pairs_of(profiles, platform, platforms)
    units = units_of(pairs, platform)
    uncounted = [pair.reference.name for pair in pairs if missing_counters(pair.reference)]
    fitted, own_time = None, None
    with_gpu = platform.is_gpu or any(platforms[p.reference.platform].is_gpu for p in pairs)
    if with_gpu and uncounted:
        raise UsageError(
            f"profile {uncounted[0]!r} lacks counters, which a GPU's calibration needs",
            hint="pilot it again where these can be counted (hardware counters or valgrind)",
        )
    if with_gpu or are_benchmark(pairs, platform, platforms):
        fitted = adapted(pair_columns(pairs, platform, platforms), manifest.priors[kind])
    else:
        point = Allocation(platform, units)
        own_time = own_time_of(Predictor.load(source), pairs, point, platforms)
    entry = Labelled(
        platform=platform.name,
        cores=0 if platform.is_gpu else units,
        gpus=units if platform.is_gpu else 0,
        rows=len(pairs),
        kernels=len({pair.kernel for pair in pairs}),
        label=f"{len(pairs)} workloads timed there, adapted from the {kind} prior",
        prior=fitted,
        score_quantile=(fitted or manifest.priors[kind]).score_quantile,
        hardware=platform,
        reference=pairs[0].reference.platform,
        own_time=own_time,
    )
    others = tuple(e for e in manifest.labelled if e.platform != platform.name)
    files = {f: (source / f).read_bytes() for f in bundles.files_of(others)}
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


def adapted(data: LabelRows, kind: Calibration) -> Calibration:
    """Return the calibrated roofline of the kind (CPU, GPU) shrunk towards ``data``."""
    fitted = shrunk_prior(data, kind)
    return Calibration(
        bias=fitted.bias,
        carry=fitted.carry,
        reduction_s=fitted.reduction_s,
        score_quantile=honest_quantile(data, kind),
    )


def _card(entry: Labelled, command: str) -> str:
    how = []
    if entry.own_time is not None:
        how.append(f"programs by their own time, times {math.exp(entry.own_time.log_factor):.3f}")
    if entry.prior is not None:
        bias, carry = entry.prior.bias, entry.prior.carry
        how.append(f"loops by the roofline, bias {bias:+.3f}, carry {carry:.2f}")
    return (
        f"\n## Adapted to `{entry.platform}`\n"
        f"By `{command}`: {entry.rows} workloads ({entry.kernels} kernels) timed there; "
        f"{', '.join(how)}.\n"
    )
