"""Figures of merit, each over held-out predictions, each with what it is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.intervals import LEVEL
from berth.predictor.families.program.ceilings import Floats


@dataclass(frozen=True, slots=True)
class Figures:
    """One method on one task."""

    r2_log_speedup: float
    """Of log(t_reference / t_target): how much of what differs between kernels is explained."""
    r2_log_time: float
    median_error: float
    """Of ``|predicted / measured - 1|`` on the target's time."""
    mean_error: float
    worst_error: float
    kendall_tau: float
    """Of predicted and measured speedup over all pairs of different kernels."""
    regret: float
    """Geometric mean of time where it was sent over time where it runs best (1: always right)."""
    worst_regret: float
    coverage: float | None
    """Of the nominal 90 % interval, kernels weighing the same; None: no interval is made."""
    interval_factor: float | None
    """Median over rows of upper over middle time."""
    winkler: float | None
    """Mean interval score in log time at 90 % (smaller is better)."""


def figures(
    log_measured: Floats,
    log_predicted: Floats,
    log_reference: Floats,
    kernels: Sequence[str],
    log_width: Floats | None = None,
) -> Figures:
    """Figures of predicted against measured target times (all natural logarithms of seconds)."""
    error = np.abs(np.expm1(log_predicted - log_measured))
    ratio = _regrets(log_measured, log_predicted, log_reference)
    covered = width = score = None
    if log_width is not None:
        off = np.abs(log_measured - log_predicted)
        covered = group_mean((off <= log_width).astype(np.float64), kernels)
        width = float(np.median(np.exp(log_width)))
        score = float(np.mean(2 * log_width + 2 / (1 - LEVEL) * np.maximum(off - log_width, 0)))
    return Figures(
        r2_log_speedup=r2(log_reference - log_measured, log_reference - log_predicted),
        r2_log_time=r2(log_measured, log_predicted),
        median_error=float(np.median(error)),
        mean_error=float(error.mean()),
        worst_error=float(error.max()),
        kendall_tau=kendall(log_reference - log_measured, log_reference - log_predicted, kernels),
        regret=float(np.exp(ratio.mean())),
        worst_regret=float(np.exp(ratio.max())),
        coverage=covered,
        interval_factor=width,
        winkler=score,
    )


def r2(measured: Floats, predicted: Floats) -> float:
    """Coefficient of determination; NaN where nothing varies."""
    total = float(((measured - measured.mean()) ** 2).sum())
    return math.nan if total == 0 else 1 - float(((measured - predicted) ** 2).sum()) / total


def kendall(
    measured: Floats, predicted: Floats, groups: Sequence[str] | Sequence[int] | None = None
) -> float:
    """Kendall's tau-b over pairs of rows of different ``groups`` (None: over all pairs).

    NaN where there is no such pair; 0 where one side is the same in all of them.
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
    """[rows] ``kendall`` of each row's order of its columns, of those that were measured (not
    NaN); NaN for fewer than two."""
    return np.array([
        kendall(real[known], guess[known])
        for real, guess, known in zip(measured, predicted, np.isfinite(measured), strict=True)
    ])  # fmt: skip


def _regrets(log_measured: Floats, log_predicted: Floats, log_reference: Floats) -> Floats:
    """Log of (time where it was sent / least time) between staying and going to the target."""
    went = log_predicted < log_reference
    taken = np.where(went, log_measured, log_reference)
    return np.asarray(taken - np.minimum(log_measured, log_reference))


def group_mean(values: Floats, groups: Sequence[str] | Sequence[int]) -> float:
    """Mean over groups of each group's mean."""
    _, place = np.unique(np.array(groups), return_inverse=True)
    return float((np.bincount(place, values) / np.bincount(place)).mean())
