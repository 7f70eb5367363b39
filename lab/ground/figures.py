"""Standard figures of held-out predictions, and curves of them against few samples.

Errors are ``|predicted / measured - 1|``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from berth.predictor.core.intervals import LEVEL, group_quantile
from berth.predictor.learning.folds import group_mean, kendall, r2
from lab.ground.table import Floats, Places, Strings

WITHIN = 0.1
ROWS_FOR_TAU = 2000


@dataclass(frozen=True, slots=True)
class Figures:
    """One method on some rows; NaN where a figure is not defined."""

    rows: int
    mean_error: float
    median_error: float
    p90_error: float
    within_10: float
    """Acc(10 %): share of rows within 10 %."""
    bias: float
    """Median of predicted over measured."""
    r2_log: float
    """Of the logarithms."""
    kendall_tau: float
    """Over pairs of rows of different groups; of at most ``ROWS_FOR_TAU`` rows at random."""
    coverage: float | None = None
    """Share inside the 90 % interval, groups weighing the same; None: no interval is made. Rows
    without one (NaN) do not count."""
    interval_factor: float | None = None
    """Median over rows of upper over middle."""


def figures(
    log_measured: Floats,
    log_predicted: Floats,
    groups: Strings | Places,
    *,
    log_width: Floats | None = None,
    log_base: Floats | float = 0.0,
    rows_for_tau: int = ROWS_FOR_TAU,
) -> Figures:
    """Return [rows] natural logarithms; ``groups`` name rows that resemble each other.

    ``log_width``: half widths of 90 % intervals. ``log_base``: added to both logarithms for R2 and
    tau where the logarithms are of ratios.
    """
    off = log_predicted - log_measured
    error = np.abs(np.expm1(off))
    some = np.random.default_rng(0).permutation(len(off))[:rows_for_tau]
    real, guess = log_measured + log_base, log_predicted + log_base
    inside = factor = None
    if log_width is not None and (known := np.isfinite(log_width)).any():
        held = (np.abs(off) <= log_width)[known].astype(np.float64)
        inside = group_mean(held, groups[known].tolist())
        factor = float(np.exp(np.median(log_width[known])))
    return Figures(
        rows=len(off),
        mean_error=float(error.mean()),
        median_error=float(np.median(error)),
        p90_error=float(np.quantile(error, 0.9)),
        within_10=float((error <= WITHIN).mean()),
        bias=float(np.exp(np.median(off))),
        r2_log=r2(real, guess),
        kendall_tau=kendall(real[some], guess[some], groups[some].tolist()),
        coverage=inside,
        interval_factor=factor,
    )


def combined(
    of: Sequence[Figures],
    how: Callable[[list[float]], float] = np.nanmean,
) -> Figures:
    """Return figure by figure: the mean over draws, devices or seeds, or their least or
    greatest."""
    found = {}
    for name in (one.name for one in fields(Figures)):
        values = [value for each in of if (value := getattr(each, name)) is not None]
        known = any(np.isfinite(values))
        found[name] = (float(how(values)) if known else np.nan) if values else None
    return Figures(**{**found, "rows": int(found["rows"] or 0)})  # type: ignore[arg-type]


def widths_from_other_folds(score: Floats, groups: Strings, fold: Places) -> Floats:
    """[rows] the 90 % quantile of the scores of all other folds: the width that a row's own fold
    had no part in. Rows whose score is NaN count nowhere."""
    known = np.isfinite(score)
    found = np.full(len(score), np.nan)
    for each in np.unique(fold[known]).tolist():
        rest = known & (fold != each)
        found[fold == each] = group_quantile(score[rest].tolist(), groups[rest].tolist(), LEVEL)
    return found


@dataclass(frozen=True, slots=True)
class Point:
    """Figures after so many samples: of draws the mean, the least and the greatest."""

    samples: int
    mean: Figures
    low: Figures
    high: Figures

    def cell(self) -> str:
        """Acc(10 %) with its least and greatest draw, and the mean error."""
        low, high = self.low.within_10, self.high.within_10
        return f"{self.mean.within_10:.0%} ({low:.0%} to {high:.0%}), {self.mean.mean_error:.1%}"


def curve(
    samples: Sequence[int], draws: int, one: Callable[[int, int], Figures]
) -> tuple[Point, ...]:
    """``one(k, draw)`` for each number of samples; without a sample there is one draw."""
    return tuple(
        point(count, [one(count, draw) for draw in range(draws if count else 1)])
        for count in samples
    )


def point(samples: int, drawn: Sequence[Figures]) -> Point:
    """Return the point of the figures of each draw."""
    return Point(samples, combined(drawn), combined(drawn, np.nanmin), combined(drawn, np.nanmax))


def over(points: Sequence[Point]) -> Point:
    """Return the mean over devices, of curves at the same number of samples."""
    return Point(
        points[0].samples, combined([one.mean for one in points]),
        combined([one.low for one in points]), combined([one.high for one in points]),
    )  # fmt: skip
