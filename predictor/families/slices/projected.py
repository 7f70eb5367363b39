"""Adjust what other families predict on MIG slices by bounds on the slow-down.

Other families predict each slice as a device of its own. Here their ratio of slice time to
whole-GPU time is limited to a range: a slice is not faster than its whole GPU, and not slower than
1 / effective share (measured for each slice size). The adjusted time is the whole GPU's predicted
time, which is better known, multiplied by this ratio.

In the data that the effective shares were fitted to, with each model left out in turn, 100 % of the
slow-downs (inference, A100 80 GB) and 97 % (training, A100 40 GB) are below the upper limit plus
``SLACK``.

Where monitoring recorded the utilisation of the GPU and, perhaps, of its memory in a program's runs
on the whole GPU, the slow-down is that of the methods ``use`` and ``gpu-use`` of the bundle
(``latent``), at most what the utilisation allows (``physics.most_log_slowdown``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from berth.predictor.core.family import Adjusted, Bundles, Question
from berth.predictor.core.forecast import SourceShare
from berth.predictor.core.gpu_use import GpuUse, RecordsGpuUse
from berth.predictor.core.prediction import Basis, Interval, Prediction, PredictionCurve
from berth.predictor.families.slices.bundle import (
    DEFAULT_SLICES_BUNDLE,
    SLICES_SCHEMA,
    SliceManifest,
    verify,
)
from berth.predictor.families.slices.latent import LatentProcess, features, log_slowdowns
from berth.predictor.families.slices.physics import (
    EASE,
    TYPICAL,
    SliceShare,
    most_log_slowdown,
    share_of,
)
from berth.predictor.hardware.mig.slices import slice_of

WITH_MEMORY, WITHOUT_MEMORY = "use", "gpu-use"
"""Methods: from utilisation of the GPU and of its memory; from utilisation of the GPU alone."""
SLACK = math.log(1.1)
"""Log by which a slow-down may exceed its upper limit: of 113 slow-downs that were measured, all
but those of one model with unsteady times stay below that by the utilisation."""
BELOW = math.log(1 / 0.95)
"""Log by which a slice may be faster than the whole GPU: as much as unsteady step times show."""


def projected(question: Question, bundles: Bundles, forecast: Adjusted) -> Adjusted:
    """Return the forecast with slices recomputed from the prediction of their whole GPU.

    Only slices whose GPU has a prediction change, and none with a basis better than ``SCALED``.
    """
    curves, sources = dict(forecast.curves), dict(forecast.sources)
    by_gpu: dict[str, dict[str, SliceShare]] = {}
    for name, platform in question.platforms.items():
        cut = slice_of(platform)
        if platform.parent is not None and platform.parent in forecast.curves and cut is not None:
            by_gpu.setdefault(platform.parent, {})[name] = share_of(*cut)
    for parent, shares in by_gpu.items():
        manifest = _manifest(bundles.get(SLICES_SCHEMA, DEFAULT_SLICES_BUNDLE))
        cut = slice_of(question.platforms[next(iter(shares))])
        known = cut is not None and cut[0].gpu in manifest.gpus
        whole = forecast.curves[parent].nearest(1)
        by_use = _by_use(question, parent, shares, manifest)
        ratios = by_use or _ratios(forecast.curves, whole, shares, manifest)
        for name, ratio in ratios.items():
            own = _own(forecast.curves, name, whole)
            if own.gpus != 1 or own.basis.rank < Basis.SCALED.rank:
                continue
            measured = known and manifest.shares.knows(shares[name])
            least = Basis.SCALED if measured else Basis.PRIOR
            point = _point(own, whole, ratio, question.platforms[name].memory_bytes, least)
            curves[name] = PredictionCurve((point,))
            sources[name] = _sources(forecast.sources.get(parent, ()), point, known)
    return Adjusted(curves, sources)


def _by_use(
    question: Question, parent: str, shares: Mapping[str, SliceShare], manifest: SliceManifest
) -> dict[str, Interval] | None:
    document = question.workload.document
    use = document.gpu_use(parent) if isinstance(document, RecordsGpuUse) else None
    return None if use is None else from_use(use, shares, manifest)


@lru_cache(maxsize=8)
def _manifest(folder: Path) -> SliceManifest:
    return verify(folder)


def _own(curves: Mapping[str, PredictionCurve], name: str, whole: Prediction) -> Prediction:
    """Return a family's prediction of the slice; if no family has one, that of the whole GPU.

    The copied prediction has no energy, and its basis is at best ``SCALED``.
    """
    if name in curves:
        return curves[name].nearest(1)
    basis = max(whole.basis, Basis.SCALED, key=lambda basis: basis.rank)
    return replace(whole, platform=name, basis=basis, energy_j=None)


def _ratios(
    curves: Mapping[str, PredictionCurve],
    whole: Prediction,
    shares: Mapping[str, SliceShare],
    manifest: SliceManifest,
) -> dict[str, Interval]:
    """Return each slice's slow-down against the whole GPU, limited by its effective share, as an
    interval.

    A slice is never faster than a slice with at least as much compute and memory.
    """
    width = next(entry.width for entry in manifest.methods if entry.name == "typical")
    most = {name: -math.log(manifest.shares.effective(share)) for name, share in shares.items()}
    base = math.log(whole.runtime_s.mid)
    predicted = {
        name: math.log(curves[name].nearest(1).runtime_s.mid) - base
        if name in curves
        else TYPICAL * most[name]
        for name in shares
    }
    logs = {name: min(max(predicted[name], 0.0), bound) for name, bound in most.items()}
    ratios = {}
    for name, share in shares.items():
        log = max(logs[other] for other, theirs in shares.items() if share.within(theirs))
        half = width * (EASE + most[name]) if name in curves else most[name] + SLACK
        low = max(log - half, -BELOW)
        high = max(min(log + half, most[name] + SLACK), log)
        ratios[name] = Interval(math.exp(low), math.exp(log), math.exp(high))
    return ratios


def _point(
    own: Prediction, whole: Prediction, ratio: Interval, memory_bytes: float, least: Basis
) -> Prediction:
    """Return the slice's prediction: the whole GPU's time multiplied by the slow-down ``ratio``.

    Speedup and energy change by the same factor; the basis is at best ``least``.
    """
    base = whole.runtime_s
    mid = base.mid * ratio.mid
    down = math.hypot(math.log(base.mid / base.low), math.log(ratio.mid / ratio.low))
    up = math.hypot(base.log_width, ratio.log_width)
    seconds = Interval(mid * math.exp(-down), mid, mid * math.exp(up))
    moved = own.runtime_s.mid / mid
    faster = own.speedup.mid * moved
    fits = own.memory.fits_gpus(memory_bytes)
    return replace(
        own,
        basis=max((own.basis, whole.basis, least), key=lambda basis: basis.rank),
        runtime_s=seconds,
        own_log_width=math.hypot(whole.ratio_log_width, ratio.half_log_width),
        speedup=Interval(faster * math.exp(-up), faster, faster * math.exp(down)),
        energy_j=None if own.energy_j is None else own.energy_j.scaled(1 / moved),
        abstained=whole.abstained if fits else own.abstained,
    )


def _sources(
    of_whole: tuple[SourceShare, ...], point: Prediction, known: bool
) -> tuple[SourceShare, ...]:
    """Return the sources of the whole GPU's time, with the interval width of the slice's time."""
    width = point.runtime_s.log_width
    situation = "slice of it" if known else "slice of it, unseen device"
    return tuple(
        replace(source, log_width=width, situation=f"{source.situation}; {situation}".strip("; "))
        for source in of_whole
    )


def from_use(
    use: GpuUse, shares: Mapping[str, SliceShare], manifest: SliceManifest
) -> dict[str, Interval] | None:
    """Return the slow-down on each slice with its 90 % interval; None: the bundle has no
    method for what is recorded.

    A slice is never faster than a slice with at least as much compute and memory.
    """
    name = WITHOUT_MEMORY if use.memory_utilisation is None else WITH_MEMORY
    process, entry = manifest.latent(name), manifest.method(name)
    if process is None or entry is None:
        return None
    effective = {slice_: manifest.shares.effective(share) for slice_, share in shares.items()}
    busiest = replace(use, utilisation=use.most)
    logs, most = (
        {slice_: _log_slowdown(process, one, share) for slice_, share in effective.items()}
        for one in (use, busiest)
    )
    return {
        slice_: _interval(
            max(logs[other] for other, theirs in shares.items() if share.within(theirs)),
            max(most[other] for other, theirs in shares.items() if share.within(theirs)),
            most_log_slowdown(use.most, effective[slice_]),
            entry.width * (EASE - math.log(effective[slice_])),
        )
        for slice_, share in shares.items()
    }


def _log_slowdown(process: LatentProcess, use: GpuUse, effective: float) -> float:
    """Return the log of (time on a slice / time on the whole GPU)."""
    latent = process.latent(features(use.utilisation, use.memory_utilisation))
    log = float(log_slowdowns(latent, np.array([effective]))[0])
    return min(max(log, 0.0), most_log_slowdown(use.utilisation, effective))


def _interval(log: float, of_busiest_run: float, most: float, half: float) -> Interval:
    """Return the 90 % interval of a slow-down; the arguments are natural logarithms.

    ``log``: predicted for the median run, ``of_busiest_run``: for the run with the highest
    utilisation, whose slow-down is at most ``most``; ``half``: half width.
    """
    high = min(max(log, of_busiest_run) + half, most + SLACK)
    return Interval(math.exp(max(log - half, -BELOW)), math.exp(log), math.exp(max(high, log)))
