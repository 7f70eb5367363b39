"""Means of Gaussian processes over workloads, several kernels at once and averaged.

Rows of one application and of one kernel share an error of their own (the last two parts of the
kernel): a new application gets none of it, another size of a known kernel gets all of it, and
34 rows of one application do not count as 34 applications.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.ceilings import Floats

_ROOT3 = float(np.sqrt(3.0))


@dataclass(frozen=True, slots=True)
class Kernel:
    """Standard deviations (log time) of the parts of a covariance; Matern 3/2 for what is near."""

    constant: float
    linear: float
    """Of a trend over all features together."""
    local: float
    length: float
    """In features; rows much farther apart tell nothing of each other."""
    shared: float
    """Of the application's own error, and once more of the kernel's own."""
    everywhere: float
    """Share of that own error that does not fall off with distance."""
    noise: float

    def covariance(self, squared: Floats, product: Floats, groups: Floats) -> Floats:
        """From squared distances, inner products and 0, 1 or 2 groups in common (all n x m)."""
        far = _ROOT3 / self.length * np.sqrt(squared)
        near = (1 + far) * np.exp(-far)
        own = self.shared**2 * (self.everywhere + (1 - self.everywhere) * near)
        found = self.constant**2 + self.local**2 * near + groups * own
        if self.linear:
            found = found + self.linear**2 * product
        return np.asarray(found)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Fitted processes over the same points, one output a platform."""

    centre: Floats
    scale: Floats
    points: Floats
    """Training rows x features, centred and scaled."""
    groups: tuple[tuple[str, str], ...]
    """Application and kernel of each training row."""
    kernels: tuple[Kernel, ...]
    weights: Floats
    """Kernels x training rows x outputs; already divided by the number of kernels."""
    offset: Floats
    amplitude: Floats

    def place(self, features: Floats) -> Floats:
        """Features centred and scaled; an unknown one is put in the middle."""
        return np.nan_to_num((features - self.centre) / self.scale, nan=0.0)

    def mean(self, features: Floats, groups: Sequence[tuple[str, str]]) -> Floats:
        """Rows x outputs."""
        covariances = parts(self.kernels, self.place(features), self.points, groups, self.groups)
        count, rows, known = covariances.shape
        flat = covariances.transpose(1, 0, 2).reshape(rows, count * known)
        return np.asarray(
            self.offset + self.amplitude * (flat @ self.weights.reshape(count * known, -1))
        )


def parts(
    kernels: Sequence[Kernel],
    places: Floats,
    points: Floats,
    groups: Sequence[tuple[str, str]],
    known: Sequence[tuple[str, str]],
) -> Floats:
    """Kernels x places x points: covariances."""
    product = places @ points.T
    squared = (places**2).sum(axis=1)[:, None] + (points**2).sum(axis=1) - 2 * product
    squared = np.maximum(squared, 0.0)
    common = np.array(
        [[float(g[0] == k[0]) + float(g == k) for k in known] for g in groups], dtype=np.float64
    ).reshape(squared.shape)
    return np.stack(
        [kernel.covariance(squared, product / points.shape[1], common) for kernel in kernels]
    )
