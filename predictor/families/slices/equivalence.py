"""A rule without learning: batch ``b`` on a slice takes as long as ``b / share`` on the whole GPU.

A slice with part of the multiprocessors needs as many waves for a batch as the whole GPU for a
batch that is larger by that part. Read off the workload's own times over batches, log-log between
them and in proportion beyond the largest. ``share`` is the effective one, and no slow-down exceeds
``1 / share``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.core.combine import SourceEstimate, combine
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Basis
from berth.predictor.families.slices.workload import Point

LOAD_MODEL, EQUIVALENCE = "load model", "equivalence"
IN_MANIFEST = {"law": LOAD_MODEL, EQUIVALENCE: EQUIVALENCE}
"""Names of sources as bundles have them, from the first version on."""
LEAST_BATCHES = 2
ALIKE = 0.5
"""Log width that stands for that of either source; any would do."""


def log_slowdowns(
    points: Sequence[Point], batch: float, processes: int, effective: Floats
) -> Floats | None:
    """Log slow-downs by effective share; None: too few batches with so many processes."""
    mine = sorted((p for p in points if p.processes == processes), key=lambda p: p.batch)
    if len(mine) < LEAST_BATCHES:
        return None
    log_b = np.log([p.batch for p in mine])
    log_t = np.maximum.accumulate(np.log([p.seconds for p in mine]))
    here = next((p.seconds for p in mine if p.batch == batch), None)
    base = math.log(here) if here is not None else float(np.interp(math.log(batch), log_b, log_t))
    wanted = math.log(batch) - np.log(effective)
    reached = np.interp(wanted, log_b, log_t) + np.maximum(wanted - log_b[-1], 0.0)
    return np.asarray(np.clip(reached - base, 0.0, -np.log(effective)), dtype=np.float64)


def mixed(load_model: Floats, rule: Floats) -> tuple[Floats, dict[str, float]]:
    """Both together in log, and the weight of each.

    Weighed alike: the errors of eleven models do not say which is better. Weights by their inverse
    variances, from the other models, were off 17.0 % in the mean, equal ones 11.2 %.
    """
    estimates = [
        SourceEstimate(name, around(1.0, ALIKE), Basis.CALIBRATED)
        for name in (LOAD_MODEL, EQUIVALENCE)
    ]
    weight = {share.source: share.weight for share in combine(estimates).shares}
    return np.asarray(weight[LOAD_MODEL] * load_model + weight[EQUIVALENCE] * rule), weight
