"""The nearest known device times a factor: a source for platforms with few runs of their own.

A model takes, over its time under the roofs, what the most similar measured case took on the known
device with the most similar data sheet; times one factor, the median over the platform's own runs.
"""

from __future__ import annotations

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.graph.latency.transfer.cases import Cases
from berth.predictor.families.graph.latency.transfer.kernel import Scale, squared

_OTHER_FUSING = 10.0
"""Squared distance of a compiled case from one that is not."""


def nearest_residual(known: Cases, residual: Floats, asked: Cases, scale: Scale) -> Floats:
    """[asked] log of time over roofline time, without the factor.

    ``known``: at least one case; only the device nearest to the first asked case is used.
    """
    apart = squared(asked.spec[:1], known.spec)[0]
    some = np.flatnonzero(apart <= apart.min() + 1e-9)
    cases = known[some]
    left, right = scale.scaled(asked), scale.scaled(cases)
    away = squared(left[0], right[0]) + squared(left[1], right[1])
    away += _OTHER_FUSING * (asked.fused[:, None] != cases.fused)
    return np.asarray(residual[some][away.argmin(axis=1)])
