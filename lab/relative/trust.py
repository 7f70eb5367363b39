"""Widths of intervals that grow with a row's distance from the training rows.

An error is divided by its *difficulty*: the error scale of the platform, larger where the row is
far from the training rows and where the model disagrees with the nearest of them. What ships has
one width for each platform (``learning.relative.train``), which is hardly worse (Winkler score 3.51
in place of 3.48 on AIWC); the simulated site states its deviations by these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.widths import next_application_quantile

_CLIP = 8.0
"""Standardised features are clipped to this absolute value."""
_LEAST_SCALE = 1e-6
_OPINION_WIDTH = 0.5
"""Bandwidth of the estimate from neighbouring rows (``opinion``), as a root mean square of standard
deviations.
"""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Training rows, as standardised logs of the counters and of the time on the reference."""

    centre: Floats
    scale: Floats
    points: Floats
    """[training rows, features] standardised features."""
    log_speedup: Floats
    """[training rows, platforms]; NaN: not measured."""
    weights: Floats
    """[training rows] weights such that every application has the same total weight."""

    @classmethod
    def fit(cls, rows: Rows) -> Neighbours:
        """Return the training rows with features standardised to mean 0 and deviation 1, for
        similarity search."""
        raw = _features(rows)
        known = np.isfinite(raw)
        count = np.maximum(known.sum(axis=0), 1)
        centre = np.where(known, raw, 0.0).sum(axis=0) / count
        spread = np.where(known, raw - centre, 0.0)
        scale = np.maximum(np.sqrt((spread**2).sum(axis=0) / count), _LEAST_SCALE)
        unplaced = cls(centre, scale, np.empty((0, 0)), rows.log_speedup, rows.weights())
        return cls(centre, scale, unplaced.place(rows), unplaced.log_speedup, unplaced.weights)

    def place(self, rows: Rows) -> Floats:
        """Return the standardised features [rows, features]; a missing counter gets the training
        mean."""
        places = (_features(rows) - self.centre) / self.scale
        return np.asarray(np.clip(np.nan_to_num(places, nan=0.0), -_CLIP, _CLIP))

    def squared(self, places: Floats) -> Floats:
        """Return [rows, training rows]: mean over features of the squared differences."""
        return np.asarray(((places[:, None, :] - self.points[None]) ** 2).mean(axis=2))

    def distance(self, places: Floats) -> Floats:
        """Return [rows] distance to the nearest training row, over the counters only."""
        apart = (places[:, None, :-1] - self.points[None, :, :-1]) ** 2
        return np.asarray(np.sqrt(apart.mean(axis=2).min(axis=1)))

    def nearness(self, places: Floats, width: float) -> Floats:
        """Return [rows, training rows]: weights that fall with distance and sum to 1 for each
        row."""
        apart = self.squared(places)
        near = np.exp(-(apart - apart.min(axis=1, keepdims=True)) / (2 * width**2))
        near = near * self.weights
        return np.asarray(near / near.sum(axis=1, keepdims=True))

    def opinion(self, places: Floats) -> Floats:
        """Return [rows, platforms]: mean log speedup of the nearby training rows, by kernel
        regression.

        Source: Nadaraya 1964, Watson 1964.
        """
        near = self.nearness(places, _OPINION_WIDTH)
        known = np.isfinite(self.log_speedup)
        total = near @ known
        summed = near @ np.where(known, self.log_speedup, 0.0)
        return np.asarray(np.where(total > 0, summed / np.maximum(total, 1e-300), 0.0))


def _features(rows: Rows) -> Floats:
    return np.column_stack([np.log1p(np.maximum(rows.values, 0.0)), rows.log_reference])


_AGREEMENT = 0.3
"""Constant added to disagreements in log time before their log is taken."""
_STRETCH_LIMIT = 3.0
"""Signals are clipped to this many standard deviations of the training rows."""
_RIDGE = 2.0
"""Ridge penalty on the slopes of difficulty, in units of the total weight; slopes stay at 0 or
above."""
_FLOOR = 0.1
"""Error in log time added before the log is taken, so that a lucky hit does not look easy."""


@dataclass(frozen=True, slots=True)
class Difficulty:
    """Expected error of each prediction, from its distance to the training rows and its
    disagreement with similar rows.

    The log of the scale is linear in the two ``signals``.
    """

    platform: Floats
    """[platforms] error scale in log time."""
    centre: Floats
    spread: Floats
    slopes: Floats
    """The intercept, then one slope per signal."""

    def scale(self, signals: Floats) -> Floats:
        """Return error scales [rows, platforms] for signals [rows, platforms, signals]."""
        standard = np.clip((signals - self.centre) / self.spread, -_STRETCH_LIMIT, _STRETCH_LIMIT)
        return np.asarray(self.platform * np.exp(self.slopes[0] + standard @ self.slopes[1:]))


@dataclass(frozen=True, slots=True)
class Trust:
    """Error statistics of a family's held-out predictions."""

    neighbours: Neighbours
    difficulty: Difficulty
    quantile: float
    """90 % quantile of absolute errors over their scale, of a new application."""

    def log_widths(self, rows: Rows, log_predicted: Floats) -> Floats:
        """Return half widths of the 90 % intervals in log time, [rows, platforms]; 0 where the time
        is known."""
        scale = self.difficulty.scale(signals(self.neighbours, rows, log_predicted))
        return np.where(np.isfinite(rows.log_seconds), 0.0, self.quantile * scale)


def signals(neighbours: Neighbours, rows: Rows, log_predicted: Floats) -> Floats:
    """Return [rows, platforms, 2]: log distance to the training rows, and log disagreement with
    similar rows' speedups."""
    places = neighbours.place(rows)
    distance = np.log(np.maximum(neighbours.distance(places), 1e-3))
    opinion = rows.log_reference[:, None] - neighbours.opinion(places)
    apart = np.log(_AGREEMENT + np.abs(log_predicted - opinion))
    return np.stack([np.broadcast_to(distance[:, None], apart.shape), apart], axis=2)


def fit_residuals(rows: Rows, log_held_out: Floats) -> Trust:
    """Return the error statistics of held-out predictions."""
    errors = rows.log_seconds - log_held_out
    errors[:, rows.reference_column] = np.nan
    names, weights = np.array(rows.applications), rows.weights()
    signalled = np.empty((*errors.shape, 2))
    for name in sorted(set(rows.applications)):
        held = np.flatnonzero(names == name).tolist()
        others = Neighbours.fit(rows.take(np.flatnonzero(names != name).tolist()))
        signalled[held] = signals(others, rows.take(held), log_held_out[held])
    scaled = np.empty_like(errors)
    for name in sorted(set(rows.applications)):
        out, rest = names == name, names != name
        difficulty = fit_difficulty(signalled[rest], np.abs(errors[rest]), weights[rest])
        scaled[out] = errors[out] / difficulty.scale(signalled[out])
    return Trust(
        neighbours=Neighbours.fit(rows),
        difficulty=fit_difficulty(signalled, np.abs(errors), weights),
        quantile=next_application_quantile(np.abs(scaled), rows.applications),
    )


def fit_difficulty(signalled: Floats, errors: Floats, weights: Floats) -> Difficulty:
    """Return the scale of ``errors`` as a function of platform and signals (distance to, and
    disagreement with, training rows).

    ``errors``: rows x platforms, NaN: no label.
    """
    known = np.isfinite(errors)
    squares = np.where(known, errors, 0.0) ** 2 * weights[:, None]
    total = (known * weights[:, None]).sum(axis=0)
    overall = max(float(squares.sum() / max(total.sum(), 1e-300)), 1e-6) ** 0.5
    own = np.sqrt(squares.sum(axis=0) / np.maximum(total, 1e-300))
    # Shrink a platform's own scale half way to the overall one: it rests on few applications.
    platform = np.where(total > 0, np.sqrt(np.maximum(own, 1e-3) * overall), overall)
    design, counts = signalled[known], np.broadcast_to(weights[:, None], errors.shape)[known]
    centre, spread = design.mean(axis=0), np.maximum(design.std(axis=0), 1e-9)
    columns = np.column_stack([np.ones(len(design)), (design - centre) / spread])
    wanted = np.log(_FLOOR + (errors / platform)[known])
    penalty = np.diag([0.0, *[_RIDGE * counts.sum()] * design.shape[1]])
    left = (columns * counts[:, None]).T @ columns + penalty
    slopes = np.linalg.solve(left, (columns * counts[:, None]).T @ wanted)
    slopes[1:] = np.maximum(slopes[1:], 0.0)
    return Difficulty(platform, centre, spread, slopes)
