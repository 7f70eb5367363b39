"""Fitting the Gaussian processes of ``predictor.relative.gaussian``; nothing is searched for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berth.predictor.ceilings import Floats
from berth.predictor.relative.gaussian import Gaussian, Kernel, parts

_LEAST_SCALE = 1e-6


def fit_gaussian(
    features: Floats,
    targets: Floats,
    groups: Sequence[tuple[str, str]],
    kernels: Sequence[Kernel],
    weights: Floats,
    *,
    scaled: bool,
    standard: bool = False,
) -> Gaussian:
    """Processes with the given kernels; ``targets`` rows x outputs, NaN: not known.

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
    covariances = parts(kernels, points, points, groups, groups)
    wanted = (targets - offset) / amplitude
    found = np.zeros((len(kernels), *targets.shape))
    known = np.isfinite(wanted)
    for pattern in np.unique(known.T, axis=0):
        rows = np.flatnonzero(pattern)
        if not len(rows):
            continue
        outputs = np.flatnonzero((pattern == known.T).all(axis=1))
        for index, kernel in enumerate(kernels):
            cut = covariances[index][np.ix_(rows, rows)]
            noisy = cut + kernel.noise**2 * np.eye(len(rows))
            solved = np.linalg.solve(noisy, wanted[np.ix_(rows, outputs)])
            found[index][np.ix_(rows, outputs)] = solved / len(kernels)
    return Gaussian(centre, scale, points, tuple(groups), tuple(kernels), found, offset, amplitude)


def _moments(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Weighted mean and deviation of each column over what is finite; 0 and 0 of nothing."""
    known = np.isfinite(values)
    each = known * weights[:, None]
    total = np.maximum(each.sum(axis=0), 1e-300)
    centre = (each * np.where(known, values, 0.0)).sum(axis=0) / total
    apart = np.where(known, values - centre, 0.0)
    return centre, np.sqrt((each * apart**2).sum(axis=0) / total)
