"""Means of Gaussian processes over workloads: averages of several kernels, already summed up.

Rows of one application and of one kernel share an error of their own: a new application gets
none of it, another size of a known kernel gets all of it, and 34 rows of one application do not
count as 34 applications.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from berth.predictor.core.arrays import Floats, matern32

Group = tuple[str, str]
"""Application and kernel of a row."""


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Fitted processes over the same points, one output a platform.

    mean = offset + amplitude x (constant + place . linear + sum over points of nearness x near,
    and for points that share a group: own + nearness x own_near, once or twice).
    """

    centre: Floats
    scale: Floats
    points: Floats
    """Training rows x features, centred and scaled."""
    groups: tuple[Group, ...]
    """Of each training row."""
    lengths: Floats
    """In features; rows much farther apart tell nothing of each other."""
    constant: Floats
    linear: Floats
    """Features x outputs."""
    near: Floats
    """Lengths x training rows x outputs."""
    own: Floats
    """Training rows x outputs."""
    own_near: Floats
    """Lengths x training rows x outputs."""
    offset: Floats
    amplitude: Floats
    _known: dict[str, list[int]] = field(init=False, repr=False, compare=False)
    _norms: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known: dict[str, list[int]] = {}
        for index, (application, _) in enumerate(self.groups):
            known.setdefault(application, []).append(index)
        object.__setattr__(self, "_known", known)
        object.__setattr__(self, "_norms", (self.points**2).sum(axis=1))

    def place(self, features: Floats) -> Floats:
        """Features centred and scaled; an unknown one is put in the middle."""
        places = (features - self.centre) / self.scale
        return np.where(np.isfinite(places), places, 0.0)

    def mean(self, features: Floats, groups: Sequence[Group]) -> Floats:
        """Rows x outputs."""
        places = self.place(features)
        squared = (places**2).sum(axis=1)[:, None] + self._norms - 2 * (places @ self.points.T)
        apart = np.sqrt(np.maximum(squared, 0.0))[:, None, :]
        nearness = matern32(apart / self.lengths[:, None])
        count, lengths, known = nearness.shape
        found = self.constant + places @ self.linear
        found += nearness.reshape(count, lengths * known) @ self.near.reshape(lengths * known, -1)
        for row, group in enumerate(groups):
            if group[0] in self._known:
                found[row] += self._own(group, nearness[row])
        return np.asarray(self.offset + self.amplitude * found)

    def _own(self, group: Group, nearness: Floats) -> Floats:
        """What rows of the same application, and once more of the same kernel, add."""
        shared = self._known[group[0]]
        common = np.array([1.0 + (self.groups[index] == group) for index in shared])
        weights = self.own[shared] + np.einsum(
            "lk,lko->ko", nearness[:, shared], self.own_near[:, shared]
        )
        return np.asarray(common @ weights)
