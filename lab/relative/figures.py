"""Figures of merit for predicted times on many platforms, and the baseline to compare with.

Figures are averaged over applications. The baseline uses no counters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows

NOTICEABLE = 0.05
"""Relative difference of two times below which the order of two platforms is not scored."""


@dataclass(frozen=True, slots=True)
class VectorFigures:
    """Figures of merit of one family under one split, averaged over an application's rows, then
    over applications."""

    regret: float
    """Geometric mean of the time on the chosen platform over the shortest time; 1: always the
    fastest chosen.

    The choice is among all platforms, the reference included.
    """
    worst_regret: float
    """Regret of the application with the highest regret."""
    kendall_tau: float
    """Kendall's tau of the predicted against the measured order of a row's target platforms."""
    median_time_error: float
    """Mean over applications of the median ``|predicted / measured - 1|`` of times."""
    mean_time_error: float
    """Mean over applications of the mean ``|predicted / measured - 1|`` of times."""
    median_speedup_error: float
    """Mean over applications of the median ``|predicted / measured - 1|`` of speedups.

    This error is large where predicted times are too short.
    """
    r2_log_speedup: float
    """Coefficient of determination of log speedups over all rows and targets together."""
    pairs_right: float
    """Share of pairs of targets over 5 % apart whose order is predicted correctly."""


def vector_figures(rows: Rows, log_predicted: Floats) -> VectorFigures:
    """Return the figures of ``log_predicted`` (rows x platforms, held out) against the measured
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
    """Return [rows]: log of the time on the platform predicted fastest over the shortest measured
    time.

    The reference is one of the platforms, with its measured time.
    """
    measured = np.where(np.isfinite(rows.log_seconds), rows.log_seconds, np.inf)
    guess = np.where(np.isfinite(rows.log_seconds), log_predicted, np.inf)
    guess[:, rows.reference_column] = rows.log_reference
    picked = np.take_along_axis(measured, guess.argmin(axis=1)[:, None], axis=1)[:, 0]
    return np.asarray(picked - measured.min(axis=1))


def taus(measured: Floats, predicted: Floats) -> Floats:
    """Return Kendall's tau of each row over its measured platforms; 0 with fewer than two."""
    return np.nan_to_num(row_taus(measured, predicted))


def r2(measured: Floats, predicted: Floats) -> float:
    """Return the coefficient of determination; NaN where all measured values are equal."""
    total = float(((measured - measured.mean()) ** 2).sum())
    return math.nan if total == 0 else 1 - float(((measured - predicted) ** 2).sum()) / total


def kendall(
    measured: Floats, predicted: Floats, groups: Sequence[str] | Sequence[int] | None = None
) -> float:
    """Return Kendall's tau-b over pairs of rows of different ``groups`` (None: over all pairs).

    NaN where there is no such pair; 0 where all measured or all predicted values are equal.
    """
    first, second = np.triu_indices(len(measured), 1)
    if groups is not None:
        names = np.array(groups)
        apart = names[first] != names[second]
        first, second = first[apart], second[apart]
    if not len(first):
        return math.nan
    real = np.sign(measured[first] - measured[second])
    guess = np.sign(predicted[first] - predicted[second])
    ordered = math.sqrt(float(np.count_nonzero(real)) * float(np.count_nonzero(guess)))
    return float(real @ guess) / ordered if ordered else 0.0


def row_taus(measured: Floats, predicted: Floats) -> Floats:
    """Return [rows]: Kendall's tau-b of each row over its measured (not NaN) columns.

    NaN for rows with fewer than two measured columns.
    """
    return np.array([
        kendall(real[known], guess[known])
        for real, guess, known in zip(measured, predicted, np.isfinite(measured), strict=True)
    ])  # fmt: skip


def pairs_right(measured: Floats, predicted: Floats) -> float:
    """Return the share of column pairs ``NOTICEABLE`` apart whose order is predicted right; NaN
    without such pairs."""
    first, second = np.triu_indices(measured.shape[1], 1)
    real = measured[:, first] - measured[:, second]
    guess = predicted[:, first] - predicted[:, second]
    counted = np.abs(real) > np.log1p(NOTICEABLE)
    return float((np.sign(real) == np.sign(guess))[counted].mean()) if counted.any() else math.nan


def per_application(
    values: Floats, applications: Sequence[str], reduce: Callable[[Floats], Floats]
) -> Floats:
    """Return ``reduce`` applied to all values of each application; applications are sorted by
    name."""
    names = np.array(applications)
    return np.array([float(reduce(values[names == a])) for a in sorted(set(applications))])


@dataclass(frozen=True, slots=True)
class MeanSpeedup:
    """Baseline: the mean log speedup of each platform, the same for every workload."""

    name: str = "static best platform"
    what: str = "mean log speedup of each platform, whatever the workload"

    def fit(self, rows: Rows, seed: int) -> MeanSpeedupFitted:
        """Return the fitted baseline: each platform's mean log speedup over rows with a time there,
        0 without any."""
        known = np.isfinite(rows.log_speedup)
        total = np.where(known, rows.log_speedup, 0.0).sum(axis=0)
        return MeanSpeedupFitted(total / np.maximum(known.sum(axis=0), 1))


@dataclass(frozen=True, slots=True)
class MeanSpeedupFitted:
    """The fitted mean log speedups."""

    log_speedup: Floats
    """[platforms] mean log speedup over the reference."""

    def log_seconds(self, rows: Rows) -> Floats:
        """Return log seconds [rows, platforms]; times that the rows already have are returned
        unchanged."""
        guess = rows.log_reference[:, None] - self.log_speedup
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)
