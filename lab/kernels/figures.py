"""Figures of predicted times on a target platform from a run on a reference platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import LEVEL
from berth.predictor.learning.relative.figures import kendall, r2
from lab.ground.splits import group_mean


@dataclass(frozen=True, slots=True)
class Figures:
    """One method on one task."""

    r2_log_speedup: float
    """R2 of log(t_reference / t_target)."""
    r2_log_time: float
    median_error: float
    """Median of ``|predicted / measured - 1|`` of the time on the target."""
    mean_error: float
    worst_error: float
    kendall_tau: float
    """Kendall's tau of predicted and measured speedups, over pairs of different kernels."""
    regret: float
    """Geometric mean of time on the chosen platform / least time (1: always right)."""
    worst_regret: float
    coverage: float
    """Share inside the nominal 90 % interval; each kernel weighs the same."""
    interval_factor: float
    """Median over rows of the interval's upper end / predicted time."""
    winkler: float
    """Mean interval score in log time at 90 % (smaller is better)."""


def figures(
    log_measured: Floats,
    log_predicted: Floats,
    log_reference: Floats,
    kernels: Sequence[str],
    log_width: Floats,
) -> Figures:
    """Return figures of predicted against measured target times (all natural logarithms of
    seconds)."""
    off = np.abs(log_predicted - log_measured)
    error = np.abs(np.expm1(log_predicted - log_measured))
    real, guess = log_reference - log_measured, log_reference - log_predicted
    # Log of (time where it was sent / least time) between staying and going to the target.
    taken = np.where(guess > 0, log_measured, log_reference)
    ratio = taken - np.minimum(log_measured, log_reference)
    return Figures(
        r2_log_speedup=r2(real, guess),
        r2_log_time=r2(log_measured, log_predicted),
        median_error=float(np.median(error)),
        mean_error=float(error.mean()),
        worst_error=float(error.max()),
        kendall_tau=kendall(real, guess, kernels),
        regret=float(np.exp(ratio.mean())),
        worst_regret=float(np.exp(ratio.max())),
        coverage=group_mean((off <= log_width).astype(np.float64), kernels),
        interval_factor=float(np.median(np.exp(log_width))),
        winkler=float(np.mean(2 * log_width + 2 / (1 - LEVEL) * np.maximum(off - log_width, 0))),
    )
