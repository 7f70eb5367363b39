"""How far a prediction of many platforms can be trusted: intervals and joint errors.

All of it stands on residuals of training applications that the model had not seen (learnt in
``training.relative.trust``). A residual is divided by its *difficulty*: a scale of the platform,
stretched by how far the row is from the training rows and by how far the model is from what the
nearest rows did. The family that predicts can be any.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.joint import Joint
from berth.predictor.families.relative.neighbours import Neighbours
from berth.predictor.families.relative.rows import Rows

_AGREEMENT = 0.3
"""Added to disagreements in log time before their log is taken."""
_STRETCH_LIMIT = 3.0
"""Signals are not believed beyond so many standard deviations of training."""
LEAST_WEIGHT = 0.02
"""Of a residual far from the row, beside 1 for the nearest: no covariance stands on a few rows."""


@dataclass(frozen=True, slots=True)
class Difficulty:
    """Scale of the error of each row and platform, log-linear in two signals."""

    platform: Floats
    """One scale a platform, in log time."""
    centre: Floats
    spread: Floats
    slopes: Floats
    """Intercept, then one a signal."""

    def scale(self, signals: Floats) -> Floats:
        """Rows x platforms, from rows x platforms x signals."""
        standard = np.clip((signals - self.centre) / self.spread, -_STRETCH_LIMIT, _STRETCH_LIMIT)
        return np.asarray(self.platform * np.exp(self.slopes[0] + standard @ self.slopes[1:]))


@dataclass(frozen=True, slots=True)
class Trust:
    """What held-out residuals of one family say of its next predictions."""

    platforms: tuple[str, ...]
    reference: str
    neighbours: Neighbours
    difficulty: Difficulty
    residuals: Floats
    """Training rows x platforms: held-out log error over its scale, signed; NaN: no label."""
    quantile: float
    """90 % of a new application's ``|residual|`` stay below, see ``training.relative.trust``."""
    width: float
    """Bandwidth of the rows whose residuals count for a row's covariance."""
    shrinkage: float
    """Share of the covariance that is its diagonal."""
    regret_share: float
    """See ``Joint``."""

    def log_widths(self, rows: Rows, log_predicted: Floats) -> Floats:
        """Rows x platforms: half the 90 % interval of log time; 0 where the time is known."""
        scale = self.scale(rows, log_predicted)
        return np.where(np.isfinite(rows.log_seconds), 0.0, self.quantile * scale)

    def scale(self, rows: Rows, log_predicted: Floats) -> Floats:
        """Rows x platforms: the difficulty of each prediction, in log time."""
        return self.difficulty.scale(signals(self.neighbours, rows, log_predicted))

    def joints(self, rows: Rows, log_predicted: Floats) -> list[Joint]:
        """One a row, conditioned on the times that ``rows`` has beside the reference's.

        ``log_predicted`` must be the prediction from the reference alone.
        """
        reference = self.platforms.index(self.reference)
        near = self.neighbours.nearness(self.neighbours.place(rows), self.width)
        near = np.maximum(near, LEAST_WEIGHT * near.max(axis=1, keepdims=True))
        found = []
        scales = self.scale(rows, log_predicted)
        for index, times in enumerate(rows.log_seconds):
            shape = covariance(self.residuals, near[index], self.shrinkage)
            spread = shape * scales[index][:, None] * scales[index]
            spread[reference] = spread[:, reference] = 0.0
            mean = log_predicted[index].copy()
            mean[reference] = times[reference]
            known = {
                name: float(times[c])
                for c, name in enumerate(self.platforms)
                if np.isfinite(times[c]) and c != reference
            }
            found.append(Joint(self.platforms, mean, spread, self.regret_share).knowing(known))
        return found


def signals(neighbours: Neighbours, rows: Rows, log_predicted: Floats) -> Floats:
    """Rows x platforms x 2: log distance to the training rows, log disagreement with them."""
    places = neighbours.place(rows)
    distance = np.log(np.maximum(neighbours.distance(places), 1e-3))
    opinion = rows.log_reference[:, None] - neighbours.opinion(places)
    apart = np.log(_AGREEMENT + np.abs(log_predicted - opinion))
    return np.stack([np.broadcast_to(distance[:, None], apart.shape), apart], axis=2)


def covariance(residuals: Floats, weights: Floats, shrinkage: float) -> Floats:
    """Weighted second moments over rows, pairs without a label left out, shrunk to the diagonal.

    A platform without labels has the mean variance of the others and no correlation.
    """
    known = np.isfinite(residuals)
    filled = np.where(known, residuals, 0.0)
    total = (known * weights[:, None]).T @ known
    moments = (filled * weights[:, None]).T @ filled / np.maximum(total, 1e-300)
    variance = np.diag(moments).copy()
    labelled = np.diag(total) > 0
    variance[~labelled] = variance[labelled].mean() if labelled.any() else 1.0
    shrunk = (1 - shrinkage) * np.where(total > 0, moments, 0.0)
    np.fill_diagonal(shrunk, variance)
    values, vectors = np.linalg.eigh(shrunk)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
