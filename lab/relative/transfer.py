"""Few-shot transfer: predict a platform on which only a few workloads were timed.

Platforms are modelled as draws from one population. The log speedup of workload ``x`` is

    y_new(x) = mean_old(x) + b + s(x) . c + noise

* y_new: log speedup of the new platform over the reference;
* mean_old: mean log speedup of the known platforms;
* b: offset of the new platform;
* s: scores of the workload on the leading directions in which the known platforms differ
  (probabilistic PCA over platforms, Tipping and Bishop 1999);
* c: loadings of the new platform.

The prior of ``b`` and ``c`` is their distribution over the known platforms, each compared with the
others. Without labels (times on the new platform) the prediction is near the mean platform; labels
update ``b`` and ``c`` by Bayes' rule. Any family can predict the speedups of the known platforms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows

DIRECTIONS = 3
_LEAST_VARIANCE = 1e-4
_LEAST_PLATFORMS = 3
_APART = 0.2


@dataclass(frozen=True, slots=True)
class Basis:
    """The leading directions in which the known platforms differ, and the platforms' offsets."""

    offsets: Floats
    """Mean log speedup of each known platform minus the mean of all known platforms."""
    directions: Floats
    """Platforms x directions, orthonormal columns."""

    def scores(self, log_speedup: Floats) -> Floats:
        """Return rows x (1 + directions): a constant for the offset, then each row's scores."""
        apart = log_speedup - log_speedup.mean(axis=1, keepdims=True) - self.offsets
        return np.column_stack([np.ones(len(apart)), apart @ self.directions])


@dataclass(frozen=True, slots=True)
class Transfer:
    """The fitted offset and loadings of the new platform."""

    basis: Basis
    mean: Floats
    """Posterior mean of the offset, then of the loadings."""

    def predict(self, log_speedup: Floats) -> Floats:
        """Return the new platform's log speedup per row, from the known platforms' log speedups."""
        found = log_speedup.mean(axis=1) + self.basis.scores(log_speedup) @ self.mean
        return np.asarray(found)


def fit_transfer(old: Floats, new: Floats, weights: Floats) -> Transfer:
    """Fit the transfer to a new platform.

    ``old``: log speedups of the known platforms, rows x platforms. ``new``: those of the new
    platform, rows (NaN: not timed). ``weights``: weight of each row.

    Raises UsageError for fewer than three known platforms.
    """
    if old.shape[1] < _LEAST_PLATFORMS:
        raise UsageError(
            f"{old.shape[1]} platforms are too few to place another among",
            hint=f"at least {_LEAST_PLATFORMS} with times of all workloads are needed",
        )
    spread, noise = _population(old, weights)
    basis = _basis(old, weights)
    known = np.isfinite(new)
    scores = basis.scores(old[known])
    wanted = new[known] - old[known].mean(axis=1)
    precision = np.linalg.inv(_prior(basis, spread)) + scores.T @ scores / noise
    covariance = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    mean = covariance @ scores.T @ wanted / noise
    return Transfer(basis, np.asarray(mean))


def targets(rows: Rows) -> Floats:
    """Return log speedups, rows x platforms without the reference."""
    return np.delete(rows.log_speedup, rows.reference_column, axis=1)


def _basis(old: Floats, weights: Floats) -> Basis:
    """Return offsets and directions of the known platforms, by weighted singular vectors."""
    apart = old - old.mean(axis=1, keepdims=True)
    offsets = np.average(apart, axis=0, weights=weights)
    scaled = (apart - offsets) * np.sqrt(weights / weights.sum())[:, None]
    _, _, right = np.linalg.svd(scaled, full_matrices=False)
    return Basis(offsets, right[: min(DIRECTIONS, old.shape[1] - 1)].T)


def _prior(basis: Basis, spread: Floats) -> Floats:
    """Return the prior covariance of offset and loadings; its diagonal is ``spread``.

    Offsets and loadings are correlated over the known platforms (a fast GPU is fast where GPUs
    are); the correlations are shrunk by a fifth.
    """
    each = np.column_stack([basis.offsets, basis.directions])
    moments = each.T @ each
    scale = np.sqrt(np.maximum(np.diag(moments), _LEAST_VARIANCE))
    correlation = (1 - _APART) * moments / np.outer(scale, scale)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation * np.sqrt(np.outer(spread, spread)))


def _population(old: Floats, weights: Floats) -> tuple[Floats, float]:
    """Return the variances of offset and loadings, and of the noise.

    They are means over the known platforms, each fitted as a new platform among the others.
    """
    found, left = [], []
    for column in range(old.shape[1]):
        others = np.delete(old, column, axis=1)
        basis = _basis(others, weights)
        scores = basis.scores(others)
        wanted = old[:, column] - others.mean(axis=1)
        weighed = scores * weights[:, None]
        size = weights.sum()
        right = weighed.T @ wanted / size
        loadings = np.linalg.solve(
            weighed.T @ scores / size + 1e-3 * np.eye(scores.shape[1]), right
        )
        found.append(np.pad(loadings, (0, DIRECTIONS + 1 - len(loadings))))
        left.append(np.average((wanted - scores @ loadings) ** 2, weights=weights))
    count = 1 + min(DIRECTIONS, old.shape[1] - 1)
    spread = np.mean(np.square(found), axis=0)[:count]
    return np.maximum(spread, _LEAST_VARIANCE), max(float(np.mean(left)), _LEAST_VARIANCE)
