"""What a site's platforms do to every program: learnt from all its programs together.

Each program adds what its runs say of the platforms beside its own offset, as a precision matrix
and a vector. The sum, with the prior, is the exact Gaussian posterior; what one program added can
be taken out again, so that its own runs are not counted twice for it. A platform that many
programs find slower than forecast gets a wider prior by its own data (a scale mixture, as in
``posterior``): a bundle that is wrong by a factor of three there is corrected within a few jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.learning.cells import Place
from berth.predictor.learning.components import SHIPPED, Components
from berth.predictor.learning.posterior import Effects

_DEGREES = 2.0
_ROUNDS = 10
_SETTLED = 1e-3
"""Of the log of scales between two rounds."""
_WIDEST = 100.0
"""On the variance of an effect."""


@dataclass(frozen=True, slots=True)
class Information:
    """What one program says of the platforms (``Posterior.information``)."""

    precision: Floats
    shift: Floats


def effects_of(
    places: Sequence[tuple[Place, int]],
    programs: Sequence[Information],
    parts: Components = SHIPPED,
) -> Effects:
    """The posterior over ``places`` (with their epochs) from programs; pass all but one for it."""
    if not places:
        return Effects()
    kinds = sorted({place.kind for place, _ in places})
    names = sorted({place.platform for place, _ in places})
    changed = [n for n, (place, _) in enumerate(places) if _epochs(places, place) > 1]
    count = len(kinds) + len(names)
    design = np.zeros((len(places), count + len(changed)))
    for n, (place, _) in enumerate(places):
        design[n, kinds.index(place.kind)] = 1.0
        design[n, len(kinds) + names.index(place.platform)] = 1.0
    for column, n in enumerate(changed):
        design[n, count + column] = 1.0
    deviation = np.array([parts.site_kind] * len(kinds) + [parts.site_platform] * len(names)
                         + [parts.change] * len(changed))  # fmt: skip
    zero = np.zeros((len(places), len(places)))
    precision = design.T @ sum((one.precision for one in programs), zero) @ design
    shift = design.T @ sum((one.shift for one in programs), np.zeros(len(places)))
    scale = np.ones(len(deviation))
    mean, covariance = np.zeros(len(deviation)), np.diag(deviation**2)
    for _ in range(_ROUNDS):
        covariance = np.linalg.inv(np.diag(1 / (scale * deviation**2)) + precision)
        mean = covariance @ shift
        second = (mean**2 + np.diag(covariance)) / deviation**2
        # An EM step of the scale mixture; the size of changes is fixed.
        before = scale
        scale = np.clip((_DEGREES + second) / (_DEGREES + 1.0), 0.5, _WIDEST)
        scale[count:] = 1.0
        if np.abs(np.log(scale / before)).max() < _SETTLED:
            break
    keys = tuple((place.platform, epoch) for place, epoch in places)
    spread = design @ covariance @ design.T
    return Effects(keys, design @ mean, (spread + spread.T) / 2)


def _epochs(places: Sequence[tuple[Place, int]], place: Place) -> int:
    return sum(one.platform == place.platform for one, _ in places)
