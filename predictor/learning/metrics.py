"""Figures of merit, each over held-out predictions, each with what it is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
        covered = _by_kernel((off <= log_width).astype(np.float64), kernels)
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


def kendall(measured: Floats, predicted: Floats, kernels: Sequence[str]) -> float:
    """Kendall's tau-a over pairs of rows of different kernels."""
    names = np.array(kernels)
    first, second = np.triu_indices(len(names), 1)
    apart = names[first] != names[second]
    first, second = first[apart], second[apart]
    agree = np.sign(measured[first] - measured[second]) * np.sign(
        predicted[first] - predicted[second]
    )
    return float(agree.mean()) if len(agree) else math.nan


def vector_tau(measured: Mapping[str, Floats], predicted: Mapping[str, Floats]) -> float:
    """Mean over rows of Kendall's tau of the order of platforms."""
    names = sorted(measured)
    total, pairs = 0.0, 0
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            same = np.sign(measured[a] - measured[b]) * np.sign(predicted[a] - predicted[b])
            total += float(same.mean())
            pairs += 1
    return total / pairs if pairs else math.nan


def _regrets(log_measured: Floats, log_predicted: Floats, log_reference: Floats) -> Floats:
    """Log of (time where it was sent / least time) between staying and going to the target."""
    went = log_predicted < log_reference
    taken = np.where(went, log_measured, log_reference)
    return np.asarray(taken - np.minimum(log_measured, log_reference))


def _by_kernel(values: Floats, kernels: Sequence[str]) -> float:
    names = np.array(kernels)
    return float(np.mean([values[names == k].mean() for k in sorted(set(kernels))]))
