"""Intervals and joint error distribution of relative predictions on many platforms.

Everything is computed from residuals of training applications that were held out of training
(fitted in ``learning.relative.trust``). A residual is divided by its *difficulty*: the error scale
of the platform, increased with the row's distance from the training rows and with the model's
disagreement with the nearest rows. This works for any family of predictors. In a bundle the
``Trust`` is a JSON file beside the model; the shape of every array is checked when the file is
read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import DocumentError
from berth.predictor.core.arrays import Floats, Row, array_of, row_of
from berth.predictor.families.program.range_check import RangeCheck
from berth.predictor.families.relative.joint import Joint
from berth.predictor.families.relative.rows import Rows

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
LEAST_WEIGHT = 0.02
"""Least weight of a residual, relative to 1 for the nearest row: a covariance must not depend on a
few rows only.
"""


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
    """Error statistics from a family's held-out predictions, from which intervals of new
    predictions are computed."""

    platforms: tuple[str, ...]
    reference: str
    neighbours: Neighbours
    difficulty: Difficulty
    residuals: Floats
    """[training rows, platforms] held-out log error over its scale, signed; NaN: not measured."""
    quantile: float
    """90 % quantile of the absolute residuals of a new application, see
    ``learning.relative.trust``."""
    width: float
    """Bandwidth in the distance between rows: residuals of nearer rows weigh more in the
    covariance.
    """
    shrinkage: float
    """Weight of the diagonal matrix that the covariance is shrunk to, 0 to 1."""
    regret_share: float
    """Observed over predicted log regret, see ``Joint.regret_share``."""

    def log_widths(self, rows: Rows, log_predicted: Floats) -> Floats:
        """Return half widths of the 90 % intervals in log time, [rows, platforms]; 0 where the time
        is known."""
        scale = self.scale(rows, log_predicted)
        return np.where(np.isfinite(rows.log_seconds), 0.0, self.quantile * scale)

    def scale(self, rows: Rows, log_predicted: Floats) -> Floats:
        """Return the error scale of each prediction in log time, [rows, platforms]."""
        return self.difficulty.scale(signals(self.neighbours, rows, log_predicted))

    def joints(self, rows: Rows, log_predicted: Floats) -> list[Joint]:
        """Return the joint distribution of log times of each row, given the row's measured times.

        ``log_predicted`` must be predicted from the time on the reference alone.
        """
        reference = self.platforms.index(self.reference)
        near = self.neighbours.nearness(self.neighbours.place(rows), self.width)
        near = np.maximum(near, LEAST_WEIGHT * near.max(axis=1, keepdims=True))
        row_joints = []
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
            row_joints.append(Joint(self.platforms, mean, spread, self.regret_share).knowing(known))
        return row_joints


def signals(neighbours: Neighbours, rows: Rows, log_predicted: Floats) -> Floats:
    """Return [rows, platforms, 2]: log distance to the training rows, and log disagreement with
    similar rows' speedups."""
    places = neighbours.place(rows)
    distance = np.log(np.maximum(neighbours.distance(places), 1e-3))
    opinion = rows.log_reference[:, None] - neighbours.opinion(places)
    apart = np.log(_AGREEMENT + np.abs(log_predicted - opinion))
    return np.stack([np.broadcast_to(distance[:, None], apart.shape), apart], axis=2)


def covariance(residuals: Floats, weights: Floats, shrinkage: float) -> Floats:
    """Return the weighted covariance of residuals over rows, shrunk towards its diagonal.

    Second moments about 0; pairs with an unmeasured time are left out. A platform without any
    measured time gets the mean variance of the others and no correlation.
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


TRUST_SCHEMA = "berth.relative-trust/1"
Share = Annotated[float, Field(ge=0, le=1)]
Above = Annotated[float, Field(gt=0)]
Holed = tuple[float | None, ...]
"""A row of numbers in which unknown ones are None."""


class RangeFile(Document):
    """The JSON form of a ``RangeCheck`` over logs of counters."""

    names: tuple[str, ...] = Field(min_length=1)
    centre: Row
    scale: tuple[Above, ...]
    rows: tuple[Holed, ...] = Field(min_length=1)
    low: Holed
    high: Holed
    threshold: Above


class TrustFile(Document):
    """``trust.json``: the JSON form of a ``Trust`` and of the range of the training rows."""

    schema_: str = Field(default=TRUST_SCHEMA, alias="schema")
    platforms: tuple[str, ...] = Field(min_length=2)
    reference: str
    centre: Row
    scale: tuple[Above, ...]
    points: tuple[Row, ...] = Field(min_length=1)
    log_speedup: tuple[Holed, ...]
    weights: tuple[Above, ...]
    platform_scale: tuple[Above, ...]
    signal_centre: Row
    signal_spread: tuple[Above, ...]
    slopes: Row
    residuals: tuple[Holed, ...]
    quantile: Above
    width: Above
    shrinkage: Share
    regret_share: Share
    range: RangeFile


def fit_range(rows: Rows) -> RangeCheck:
    """Return the range check of ``rows`` over log counters, calibrated with each application left
    out in turn."""
    names = [f"log(1 + {name})" for name in rows.counters]
    return RangeCheck.fit(names, log_counters(rows), rows.applications)


def log_counters(rows: Rows) -> Floats:
    """Return log(1 + counter), [rows, counters]; NaN: missing."""
    return np.asarray(np.log1p(np.maximum(rows.values, 0.0)))


def trust_file(trust: Trust, check: RangeCheck) -> TrustFile:
    """Return error statistics and range check as one JSON document."""
    near, hard = trust.neighbours, trust.difficulty
    return TrustFile(
        schema=TRUST_SCHEMA,
        platforms=trust.platforms,
        reference=trust.reference,
        centre=row_of(near.centre),
        scale=row_of(near.scale),
        points=row_of(near.points),
        log_speedup=row_of(near.log_speedup),
        weights=row_of(near.weights),
        platform_scale=row_of(hard.platform),
        signal_centre=row_of(hard.centre),
        signal_spread=row_of(hard.spread),
        slopes=row_of(hard.slopes),
        residuals=row_of(trust.residuals),
        quantile=trust.quantile,
        width=trust.width,
        shrinkage=trust.shrinkage,
        regret_share=trust.regret_share,
        range=RangeFile(
            names=check.names,
            centre=row_of(check.centre),
            scale=row_of(check.scale),
            rows=row_of(check.rows),
            low=row_of(check.low),
            high=row_of(check.high),
            threshold=min(check.threshold, _WIDE),
        ),
    )


_WIDE = 1e9
"""Stands for an infinite threshold (only one training application), which JSON cannot express."""


def read_trust(file: TrustFile, path: Path) -> tuple[Trust, RangeCheck]:
    """Return the error statistics and the range check that a JSON document contains.

    Raises DocumentError (naming ``path``) where shapes do not match.
    """
    rows, features = len(file.points), len(file.centre)
    platforms, signals = len(file.platforms), len(file.signal_centre)

    def of(values: Sequence[object], shape: tuple[int, ...], key: str) -> Floats:
        return array_of(values, shape, path, key)

    neighbours = Neighbours(
        centre=of(file.centre, (features,), "centre"),
        scale=of(file.scale, (features,), "scale"),
        points=of(file.points, (rows, features), "points"),
        log_speedup=of(file.log_speedup, (rows, platforms), "log_speedup"),
        weights=of(file.weights, (rows,), "weights"),
    )
    difficulty = Difficulty(
        platform=of(file.platform_scale, (platforms,), "platform_scale"),
        centre=of(file.signal_centre, (signals,), "signal_centre"),
        spread=of(file.signal_spread, (signals,), "signal_spread"),
        slopes=of(file.slopes, (signals + 1,), "slopes"),
    )
    trust = Trust(
        platforms=file.platforms,
        reference=file.reference,
        neighbours=neighbours,
        difficulty=difficulty,
        residuals=of(file.residuals, (rows, platforms), "residuals"),
        quantile=file.quantile,
        width=file.width,
        shrinkage=file.shrinkage,
        regret_share=file.regret_share,
    )
    known, names = file.range, len(file.range.names)
    if features != names + 1:
        raise DocumentError(path, f"has {features} features for {names} counters", key="centre")
    check = RangeCheck(
        names=known.names,
        centre=of(known.centre, (names,), "range.centre"),
        scale=of(known.scale, (names,), "range.scale"),
        rows=of(known.rows, (len(known.rows), names), "range.rows"),
        low=np.nan_to_num(of(known.low, (names,), "range.low"), nan=-math.inf),
        high=np.nan_to_num(of(known.high, (names,), "range.high"), nan=math.inf),
        threshold=known.threshold,
    )
    return trust, check
