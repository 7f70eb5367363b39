"""Standard figures of held-out predictions, and curves of figures against the number of samples.

Errors are ``|predicted / measured - 1|``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from berth.predictor.core.intervals import LEVEL, group_quantile
from lab.ground.splits import group_mean
from lab.ground.table import Floats, Places, Strings
from lab.relative.figures import kendall, r2

WITHIN = 0.1
ROWS_FOR_TAU = 2000


@dataclass(frozen=True, slots=True)
class Figures:
    """Errors and intervals of one method on some rows; NaN where a figure is not defined."""

    rows: int
    mean_error: float
    median_error: float
    p90_error: float
    within_10: float
    """Acc(10 %): share of rows within 10 %."""
    bias: float
    """Median over rows of predicted / measured."""
    r2_log: float
    """R2 of the logarithms."""
    kendall_tau: float
    """Kendall's tau over pairs of rows from different groups, computed on at most ``ROWS_FOR_TAU``
    rows drawn at random."""
    coverage: float | None = None
    """Share of rows whose measured value is inside the 90 % interval; each group weighs the same
    and rows without an interval (NaN) are left out. None: the method gives no intervals."""
    interval_factor: float | None = None
    """Median over rows of the interval's upper end / predicted value."""


def figures(
    log_measured: Floats,
    log_predicted: Floats,
    groups: Strings | Places,
    *,
    log_width: Floats | None = None,
    log_base: Floats | float = 0.0,
    rows_for_tau: int = ROWS_FOR_TAU,
) -> Figures:
    """Return the figures of predictions; all logarithms are natural, one per row.

    ``groups``: a name per row, the same for rows that resemble each other.
    ``log_width``: half widths of the 90 % intervals of the logarithm; NaN: no interval.
    ``log_base``: added to both logarithms for R2 and tau, for logarithms of ratios.
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
    """Combine each figure over draws, devices or seeds with ``how`` (default: the mean)."""
    found = {}
    for name in (one.name for one in fields(Figures)):
        values = [value for each in of if (value := getattr(each, name)) is not None]
        known = any(np.isfinite(values))
        found[name] = (float(how(values)) if known else np.nan) if values else None
    return Figures(**{**found, "rows": int(found["rows"] or 0)})  # type: ignore[arg-type]


def widths_from_other_folds(score: Floats, groups: Strings, fold: Places) -> Floats:
    """Return, per row, the 90 % quantile of the scores of all folds except the row's own fold.

    Rows whose score is NaN are left out, and their width is NaN unless their fold has other rows
    with a score.
    """
    known = np.isfinite(score)
    found = np.full(len(score), np.nan)
    for each in np.unique(fold[known]).tolist():
        rest = known & (fold != each)
        found[fold == each] = group_quantile(score[rest].tolist(), groups[rest].tolist(), LEVEL)
    return found


@dataclass(frozen=True, slots=True)
class Point:
    """Figures for one number of samples: their mean, least and greatest value over draws."""

    samples: int
    mean: Figures
    low: Figures
    high: Figures

    def cell(self) -> str:
        """Return a table cell: Acc(10 %) with its least and greatest draw, then the mean error."""
        low, high = self.low.within_10, self.high.within_10
        return f"{self.mean.within_10:.0%} ({low:.0%} to {high:.0%}), {self.mean.mean_error:.1%}"


def curve(
    samples: Sequence[int], draws: int, one: Callable[[int, int], Figures]
) -> tuple[Point, ...]:
    """Return a point for each k in ``samples``, from the figures ``one(k, draw)`` of all draws.

    For k = 0 there is only one draw.
    """
    return tuple(
        point(count, [one(count, draw) for draw in range(draws if count else 1)])
        for count in samples
    )


def point(samples: int, drawn: Sequence[Figures]) -> Point:
    """Return the mean, least and greatest of ``drawn``, which has the figures of each draw."""
    return Point(samples, combined(drawn), combined(drawn, np.nanmin), combined(drawn, np.nanmax))


def over(points: Sequence[Point]) -> Point:
    """Return the mean over devices of points that have the same number of samples."""
    return Point(
        points[0].samples, combined([one.mean for one in points]),
        combined([one.low for one in points]), combined([one.high for one in points]),
    )  # fmt: skip
