"""The learnt time of a model graph: a sum of operators' times, and how far models like it are off.

``log t = log(terms . weights) + offset + k(descriptors) . pull``: weights of at least 0 say what
each group of operators costs in a setting (a platform with a precision, layout and software); a
Gaussian process (Matern 3/2, Rasmussen and Williams, equation 4.17) over the descriptors of models
adds what that misses. Far from every model that was measured it adds nothing: the sum stands alone.
Numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats, matern32

_CLIP = 4.0
_LEAST_S = 1e-12
DIFFICULTY_FLOOR = 0.35
"""Difficulty of a model that was measured itself; 1 more where nothing is like it."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Brings descriptors to one scale."""

    centre: Floats
    spread: Floats

    @classmethod
    def of(cls, rows: Floats) -> Scale:
        """From measured models; a column that does not vary counts nothing."""
        spread = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(spread > 1e-9, spread, np.inf))

    def __call__(self, rows: Floats) -> Floats:
        return np.clip((rows - self.centre) / self.spread, -_CLIP, _CLIP)


def similarity(asked: Floats, points: Floats, length: float) -> Floats:
    """[asked, points] in (0, 1]: 1 for the same; ``length`` in spreads of an average column."""
    square = (asked * asked).sum(axis=1)[:, None] + (points * points).sum(axis=1)[None, :]
    square -= 2 * asked @ points.T
    return matern32(np.sqrt(np.maximum(square, 0) / asked.shape[1]) / length)


@dataclass(frozen=True, slots=True)
class LearntTimes:
    """[rows] each."""

    log_seconds: Floats
    """Of one image."""
    difficulty: Floats
    """What the width of an interval is proportional to: grows with the distance to what was
    measured."""


@dataclass(frozen=True, slots=True)
class Process:
    """One setting, fitted."""

    coefficients: Floats
    """[terms] at least 0."""
    scale: Scale
    points: Floats
    """[measured, columns] descriptors, scaled."""
    length: float
    offset: float
    pull: Floats
    """[measured]"""

    def base(self, terms: Floats) -> Floats:
        """[rows] log seconds of one image by the sum of operators alone."""
        return np.asarray(np.log(np.maximum(terms @ self.coefficients, _LEAST_S)))

    def __call__(self, terms: Floats, descriptors: Floats) -> LearntTimes:
        """[rows, terms] and [rows, columns] as ``inputs`` makes them."""
        near = similarity(self.scale(descriptors), self.points, self.length)
        return LearntTimes(
            self.base(terms) + self.offset + near @ self.pull,
            DIFFICULTY_FLOOR + 1 - near.max(axis=1),
        )
