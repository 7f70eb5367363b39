"""Predicts slow-downs on MIG slices from what monitoring recorded of a program's runs on the whole
GPU: utilisation of the GPU and, where it is known, of its memory.

The methods ``use`` and ``gpu-use`` of the slices bundle are those of ``latent`` for a workload of
which no step time is known. A program without a kernel on the GPU for part of its time cannot be
slowed down in that part, so a slow-down is at most ``(1 - u) + u / e``, where

- ``u``: utilisation of the whole GPU, 0 to 1;
- ``e``: effective share of the slice, 0 to 1 (``physics``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from berth.predictor.core.gpu_use import GpuUse
from berth.predictor.core.prediction import Interval
from berth.predictor.families.slices.bundle import SliceManifest
from berth.predictor.families.slices.latent import LatentProcess, features, log_slowdowns
from berth.predictor.families.slices.physics import SliceShare

WITH_MEMORY, WITHOUT_MEMORY = "use", "gpu-use"
"""Methods: from utilisation of the GPU and of its memory; from utilisation of the GPU alone."""
EASE = 0.1
"""Constant in the width of a slow-down's interval, as in ``predictor.EASE``."""
SLACK = math.log(1.1)
"""Log by which a slow-down may exceed its upper limit by the utilisation: of 113 slow-downs that
were measured, all but those of one model with unsteady times stay below."""
BELOW = math.log(1 / 0.95)
"""Log by which a slice may be faster than the whole GPU: as much as unsteady step times show."""


def slowdowns(
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
        {slice_: log_slowdown(process, one, share) for slice_, share in effective.items()}
        for one in (use, busiest)
    )
    return {
        slice_: interval(
            max(logs[other] for other, theirs in shares.items() if share.within(theirs)),
            max(most[other] for other, theirs in shares.items() if share.within(theirs)),
            most_log_slowdown(use.most, effective[slice_]),
            entry.width * (EASE - math.log(effective[slice_])),
        )
        for slice_, share in shares.items()
    }


def log_slowdown(process: LatentProcess, use: GpuUse, effective: float) -> float:
    """Return the log of (time on a slice / time on the whole GPU)."""
    latent = process.latent(features(use.utilisation, use.memory_utilisation))
    log = float(log_slowdowns(latent, np.array([effective]))[0])
    return min(max(log, 0.0), most_log_slowdown(use.utilisation, effective))


def most_log_slowdown(utilisation: float, effective: float) -> float:
    """Return the log of the largest slow-down of a program with this utilisation."""
    return math.log((1.0 - utilisation) + utilisation / effective)


def interval(log: float, of_busiest_run: float, most: float, half: float) -> Interval:
    """Return the 90 % interval of a slow-down; the arguments are natural logarithms.

    ``log``: predicted for the median run, ``of_busiest_run``: for the run with the highest
    utilisation, whose slow-down is at most ``most``; ``half``: half width.
    """
    high = min(max(log, of_busiest_run) + half, most + SLACK)
    return Interval(math.exp(max(log - half, -BELOW)), math.exp(log), math.exp(max(high, log)))
