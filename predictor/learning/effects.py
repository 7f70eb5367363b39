"""Offsets in log time that a site's platforms add to all programs, learnt from all of its programs.

Each program contributes a precision matrix and a vector about the platforms, beside its own
offset. Their sum with the prior is the exact Gaussian posterior. A program's contribution can be
subtracted again, so that its own runs are not counted twice for it. A platform that many programs
find slower than forecast gets a wider prior (again a scale mixture): a bundle that is wrong by a
factor of three on a platform is corrected within a few jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.learning.cells import SHIPPED, Cell, Components, Hardware

_EFFECT_DEGREES = 2.0
_EFFECT_ROUNDS = 10
_EFFECT_SETTLED = 1e-3
"""Change of the log of scales between two iterations below which the iteration ends."""
_WIDEST = 100.0
"""Largest factor on the prior variance of a platform effect."""


@dataclass(frozen=True, slots=True)
class Effects:
    """Gaussian distribution of the log-time offset that each platform of a site adds to every
    program."""

    places: tuple[tuple[str, int], ...] = ()
    """(platform, epoch) in the order of ``mean`` and ``covariance``."""
    mean: Floats = field(default_factory=lambda: np.zeros(0))
    """[places] expected offset of log time."""
    covariance: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """[places, places] covariance of the offsets."""

    def at(self, cells: Sequence[Cell]) -> Floats:
        """Return the expected log-time offset of the platform of each cell; 0 for platforms without
        data."""
        return np.asarray(self._design(cells) @ self.mean)

    def between(self, left: Sequence[Cell], right: Sequence[Cell]) -> Floats:
        """Return the [left, right] covariance of the platform offsets of two lists of cells."""
        return np.asarray(self._design(left) @ self.covariance @ self._design(right).T)

    def _design(self, cells: Sequence[Cell]) -> Floats:
        design = np.zeros((len(cells), len(self.places)))
        for n, cell in enumerate(cells):
            key = (cell.place.platform, cell.place_epoch)
            if key in self.places:
                design[n, self.places.index(key)] = 1.0
        return design

    @property
    def platforms(self) -> frozenset[str]:
        """Return the names of the platforms whose offset was learnt."""
        return frozenset(name for name, _ in self.places)


NO_EFFECTS = Effects()
"""Effects before any program: every offset is 0."""


@dataclass(frozen=True, slots=True)
class Information:
    """Holds what programs' runs say about platform offsets, see ``Posterior.information``."""

    precision: Floats
    """[places, places] precision of the offsets."""
    shift: Floats
    """[places] precision times mean of the offsets."""


def effects_of(
    places: Sequence[tuple[Hardware, int]],
    information: Information,
    parts: Components = SHIPPED,
) -> Effects:
    """Return the log-time offsets of platforms learnt from several programs.

    ``places``: platforms, each with its epoch (number of detected changes); ``information``: the
    sum over the programs. For the forecast of a program sum over all others, so that its own runs
    are not counted twice.
    """
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
    precision = design.T @ information.precision @ design
    shift = design.T @ information.shift
    scale = np.ones(len(deviation))
    mean, covariance = np.zeros(len(deviation)), np.diag(deviation**2)
    for _ in range(_EFFECT_ROUNDS):
        covariance = np.linalg.inv(np.diag(1 / (scale * deviation**2)) + precision)
        mean = covariance @ shift
        second = (mean**2 + np.diag(covariance)) / deviation**2
        # An EM step of the scale mixture; the variance of changes stays fixed.
        before = scale
        scale = np.clip((_EFFECT_DEGREES + second) / (_EFFECT_DEGREES + 1.0), 0.5, _WIDEST)
        scale[count:] = 1.0
        if np.abs(np.log(scale / before)).max() < _EFFECT_SETTLED:
            break
    keys = tuple((place.platform, epoch) for place, epoch in places)
    spread = design @ covariance @ design.T
    return Effects(keys, design @ mean, (spread + spread.T) / 2)


def _epochs(places: Sequence[tuple[Hardware, int]], place: Hardware) -> int:
    return sum(other.platform == place.platform for other, _ in places)
