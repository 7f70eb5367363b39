"""The training rows as a map: how far a workload is from them, and what the nearest ones did."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows

_CLIP = 8.0
_LEAST_SCALE = 1e-6
_OPINION_WIDTH = 0.5
"""Bandwidth of the second opinion, in root mean squared standard deviations."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Training rows in standardised logs of counters and of the reference's time."""

    centre: Floats
    scale: Floats
    points: Floats
    log_speedup: Floats
    """Rows x platforms; NaN: no label."""
    weights: Floats
    """One a row: applications weigh the same."""

    @classmethod
    def fit(cls, rows: Rows) -> Neighbours:
        """From training rows."""
        raw = _features(rows)
        known = np.isfinite(raw)
        count = np.maximum(known.sum(axis=0), 1)
        centre = np.where(known, raw, 0.0).sum(axis=0) / count
        spread = np.where(known, raw - centre, 0.0)
        scale = np.maximum(np.sqrt((spread**2).sum(axis=0) / count), _LEAST_SCALE)
        made = cls(centre, scale, np.empty((0, 0)), rows.log_speedup, rows.weights())
        return cls(centre, scale, made.place(rows), made.log_speedup, made.weights)

    def place(self, rows: Rows) -> Floats:
        """Rows x features; a missing counter is put in the middle."""
        places = (_features(rows) - self.centre) / self.scale
        return np.asarray(np.clip(np.nan_to_num(places, nan=0.0), -_CLIP, _CLIP))

    def squared(self, places: Floats) -> Floats:
        """Places x training rows: mean of squared differences over features."""
        return np.asarray(((places[:, None, :] - self.points[None]) ** 2).mean(axis=2))

    def distance(self, places: Floats) -> Floats:
        """To the nearest training row over the counters alone, one a place."""
        apart = (places[:, None, :-1] - self.points[None, :, :-1]) ** 2
        return np.asarray(np.sqrt(apart.mean(axis=2).min(axis=1)))

    def nearness(self, places: Floats, width: float) -> Floats:
        """Places x training rows: weights that fall off around each place and sum to 1."""
        apart = self.squared(places)
        near = np.exp(-(apart - apart.min(axis=1, keepdims=True)) / (2 * width**2))
        near = near * self.weights
        return np.asarray(near / near.sum(axis=1, keepdims=True))

    def opinion(self, places: Floats) -> Floats:
        """Places x platforms: log speedup of the rows around (Nadaraya 1964, Watson 1964)."""
        near = self.nearness(places, _OPINION_WIDTH)
        known = np.isfinite(self.log_speedup)
        total = near @ known
        found = near @ np.where(known, self.log_speedup, 0.0)
        return np.asarray(np.where(total > 0, found / np.maximum(total, 1e-300), 0.0))


def _features(rows: Rows) -> Floats:
    return np.column_stack([np.log1p(np.maximum(rows.values, 0.0)), rows.log_reference])
