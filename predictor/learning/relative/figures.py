"""Figures of merit for a vector of times over many platforms, and the baselines to beat.

Figures are averaged over applications. A baseline has no counters, or one similar workload.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.trust import Neighbours
from berth.predictor.learning.folds import r2, row_taus

NOTICEABLE = 0.05
"""Pairs of platforms closer than this (relative) have no right order."""


@dataclass(frozen=True, slots=True)
class VectorFigures:
    """Figures of one family by one split. Rows of an application are averaged first, then
    applications."""

    regret: float
    """Geometric mean of time on the platform picked (of all, the reference among them) over the
    least time; 1: always right."""
    worst_regret: float
    """Regret of the worst application."""
    kendall_tau: float
    """Over the targets of a row: predicted order against measured order."""
    median_time_error: float
    """Mean over applications of the median ``|predicted / measured - 1|`` of times."""
    mean_time_error: float
    median_speedup_error: float
    """The same of speedups: hard on times predicted too short."""
    r2_log_speedup: float
    """Over all rows and targets at once."""
    pairs_right: float
    """Share of target pairs that differ by over 5 % whose order is predicted right."""


def vector_figures(rows: Rows, log_predicted: Floats) -> VectorFigures:
    """Return the figures of held-out ``log_predicted`` (rows x platforms) against the measured
    times."""
    targets = [i for i, name in enumerate(rows.platforms) if name != rows.reference]
    measured, predicted = rows.log_seconds[:, targets], log_predicted[:, targets]
    known = np.isfinite(measured)
    error = np.where(known, np.abs(np.expm1(predicted - measured)), np.nan)
    speedup_error = np.where(known, np.abs(np.expm1(measured - predicted)), np.nan)
    regrets = log_regrets(rows, log_predicted)
    apps = rows.applications
    by_app = per_application(regrets, apps, np.mean)
    reference = rows.log_reference[:, None]
    return VectorFigures(
        regret=float(np.exp(by_app.mean())),
        worst_regret=float(np.exp(by_app.max())),
        kendall_tau=float(per_application(taus(measured, predicted), apps, np.mean).mean()),
        median_time_error=float(per_application(error, apps, np.nanmedian).mean()),
        mean_time_error=float(per_application(error, apps, np.nanmean).mean()),
        median_speedup_error=float(per_application(speedup_error, apps, np.nanmedian).mean()),
        r2_log_speedup=r2((reference - measured)[known], (reference - predicted)[known]),
        pairs_right=pairs_right(measured, predicted),
    )


def log_regrets(rows: Rows, log_predicted: Floats) -> Floats:
    """Return of each row the log of the time on the platform with the least predicted time over the
    least time.

    The reference takes part with its known time.
    """
    measured = np.where(np.isfinite(rows.log_seconds), rows.log_seconds, np.inf)
    guess = np.where(np.isfinite(rows.log_seconds), log_predicted, np.inf)
    guess[:, rows.reference_column] = rows.log_reference
    picked = np.take_along_axis(measured, guess.argmin(axis=1)[:, None], axis=1)[:, 0]
    return np.asarray(picked - measured.min(axis=1))


def taus(measured: Floats, predicted: Floats) -> Floats:
    """Return Kendall's tau of each row over the platforms with a measured time; 0: fewer than
    two."""
    return np.nan_to_num(row_taus(measured, predicted))


def pairs_right(measured: Floats, predicted: Floats) -> float:
    """Return the share of pairs that differ noticeably whose order is right; NaN: none do."""
    first, second = np.triu_indices(measured.shape[1], 1)
    real = measured[:, first] - measured[:, second]
    guess = predicted[:, first] - predicted[:, second]
    counted = np.abs(real) > np.log1p(NOTICEABLE)
    return float((np.sign(real) == np.sign(guess))[counted].mean()) if counted.any() else math.nan


def orders_right(measured: Floats, predicted: Floats) -> Floats:
    """Return 1.0 for each row of which all columns are predicted in the measured order."""
    first, second = np.triu_indices(measured.shape[1], 1)
    real = measured[:, first] - measured[:, second]
    guess = predicted[:, first] - predicted[:, second]
    wrong = (np.sign(real) != np.sign(guess)) & (np.abs(real) > 0)
    return np.asarray((~wrong.any(axis=1)).astype(np.float64))


def per_application(
    values: Floats, applications: Sequence[str], reduce: Callable[[Floats], Floats]
) -> Floats:
    """Return ``reduce`` of all values of each application (sorted by name)."""
    names = np.array(applications)
    return np.array([float(reduce(values[names == a])) for a in sorted(set(applications))])


@dataclass(frozen=True, slots=True)
class MeanSpeedup:
    """The mean log speedup of every platform, whatever the workload: always one pick."""

    name: str = "static best platform"
    what: str = "mean log speedup of each platform, whatever the workload"

    def fit(self, rows: Rows, seed: int) -> MeanSpeedupFitted:
        """Fit the mean over the rows that have a time there; 0 where none has."""
        known = np.isfinite(rows.log_speedup)
        total = np.where(known, rows.log_speedup, 0.0).sum(axis=0)
        return MeanSpeedupFitted(total / np.maximum(known.sum(axis=0), 1))


@dataclass(frozen=True, slots=True)
class MeanSpeedupFitted:
    """Mean speedups that were fitted."""

    log_speedup: Floats
    """[platforms]"""

    def log_seconds(self, rows: Rows) -> Floats:
        """Return rows x platforms; a time that is known is given back."""
        guess = rows.log_reference[:, None] - self.log_speedup
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)


@dataclass(frozen=True, slots=True)
class NearestWorkload:
    """The speedups of the one training workload with the most similar counters."""

    name: str = "nearest workload"
    what: str = "speedups of the training row nearest in standardised log counters"

    def fit(self, rows: Rows, seed: int) -> NearestFitted:
        """Keep the training rows."""
        return NearestFitted(Neighbours.fit(rows))


@dataclass(frozen=True, slots=True)
class NearestFitted:
    """Training workloads to be near to."""

    neighbours: Neighbours

    def log_seconds(self, rows: Rows) -> Floats:
        """Return rows x platforms; of each platform the nearest row with a time there, without one
        the reference's time."""
        apart = self.neighbours.squared(self.neighbours.place(rows))
        known = np.isfinite(self.neighbours.log_speedup)
        guess = np.repeat(rows.log_reference[:, None], known.shape[1], axis=1)
        for column in np.flatnonzero(known.any(axis=0)).tolist():
            labelled = np.flatnonzero(known[:, column])
            nearest = labelled[apart[:, labelled].argmin(axis=1)]
            guess[:, column] -= self.neighbours.log_speedup[nearest, column]
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)


BASELINES = (MeanSpeedup(), NearestWorkload())
