"""Fitting the Gaussian processes of ``predictor.relative.gaussian``; nothing is searched for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats, matern32
from berth.predictor.families.relative.cost_model import Gaussian, Group

_LEAST_SCALE = 1e-6


@dataclass(frozen=True, slots=True)
class Kernel:
    """Standard deviations (log time) of the parts of a covariance; Matern 3/2 for what is near."""

    constant: float
    linear: float
    """Of a trend over all features together."""
    local: float
    length: float
    shared: float
    """Of the application's own error, and once more of the kernel's own."""
    everywhere: float
    """Share of that own error that does not fall off with distance."""
    noise: float


@dataclass(frozen=True, slots=True)
class _Points:
    """Pairs of training rows."""

    product: Floats
    """Inner products over the number of features."""
    distance: Floats
    common: Floats
    """0, 1 (same application) or 2 (and same kernel)."""

    def noisy(self, kernel: Kernel) -> Floats:
        """The covariance of what is measured at the points."""
        near = matern32(self.distance / kernel.length)
        own = kernel.shared**2 * (kernel.everywhere + (1 - kernel.everywhere) * near)
        found = kernel.constant**2 + kernel.linear**2 * self.product + kernel.local**2 * near
        return np.asarray(found + self.common * own + kernel.noise**2 * np.eye(len(near)))


def fit_gaussian(
    features: Floats,
    targets: Floats,
    groups: Sequence[Group],
    kernels: Sequence[Kernel],
    weights: Floats,
    *,
    scaled: bool,
    standard: bool = False,
) -> Gaussian:
    """The mean of processes with the given kernels; ``targets`` rows x outputs, NaN: not known.

    ``scaled``: features are divided by their (weighted) deviation; ``standard``: targets are
    centred and divided likewise. An output without any target is predicted by its offset.
    """
    centre, deviation = _moments(features, weights)
    scale = np.where(deviation > _LEAST_SCALE, deviation, 1.0) if scaled else np.ones_like(centre)
    offset, amplitude = np.zeros(targets.shape[1]), np.ones(targets.shape[1])
    if standard:
        offset, amplitude = _moments(targets, weights)
        amplitude = np.where(amplitude > _LEAST_SCALE, amplitude, 1.0)
    points = np.nan_to_num((features - centre) / scale, nan=0.0)
    pairs = _pairs(points, groups)
    wanted = (targets - offset) / amplitude
    solved = np.stack([_solve(pairs.noisy(kernel), wanted) for kernel in kernels]) / len(kernels)
    lengths = sorted({kernel.length for kernel in kernels})
    rows, outputs = wanted.shape
    constant, linear = np.zeros(outputs), np.zeros((points.shape[1], outputs))
    near, own_near = np.zeros((2, len(lengths), rows, outputs))
    own = np.zeros((rows, outputs))
    for kernel, found in zip(kernels, solved, strict=True):
        at = lengths.index(kernel.length)
        constant += kernel.constant**2 * found.sum(axis=0)
        linear += kernel.linear**2 / points.shape[1] * points.T @ found
        near[at] += kernel.local**2 * found
        own += kernel.shared**2 * kernel.everywhere * found
        own_near[at] += kernel.shared**2 * (1 - kernel.everywhere) * found
    return Gaussian(
        centre=centre,
        scale=scale,
        points=points,
        groups=tuple(groups),
        lengths=np.array(lengths),
        constant=constant,
        linear=linear,
        near=near,
        own=own,
        own_near=own_near,
        offset=offset,
        amplitude=amplitude,
    )


def _pairs(points: Floats, groups: Sequence[Group]) -> _Points:
    apart = points[:, None, :] - points[None]
    common = [[float(g[0] == k[0]) + float(g == k) for k in groups] for g in groups]
    return _Points(
        product=points @ points.T / points.shape[1],
        distance=np.sqrt((apart**2).sum(axis=2)),
        common=np.array(common),
    )


def _solve(noisy: Floats, wanted: Floats) -> Floats:
    """Weights of the points, rows x outputs; 0 where an output has no target."""
    found = np.zeros_like(wanted)
    known = np.isfinite(wanted)
    for pattern in np.unique(known, axis=1).T:
        rows = np.flatnonzero(pattern)
        outputs = np.flatnonzero((pattern[:, None] == known).all(axis=0))
        if len(rows):
            cells = np.ix_(rows, outputs)
            found[cells] = np.linalg.solve(noisy[np.ix_(rows, rows)], wanted[cells])
    return found


def _moments(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Weighted mean and deviation of each column over what is finite; 0 and 0 of nothing."""
    known = np.isfinite(values)
    each = known * weights[:, None]
    total = np.maximum(each.sum(axis=0), 1e-300)
    centre = (each * np.where(known, values, 0.0)).sum(axis=0) / total
    apart = np.where(known, values - centre, 0.0)
    return centre, np.sqrt((each * apart**2).sum(axis=0) / total)
