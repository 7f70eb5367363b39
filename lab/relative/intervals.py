"""Do the intervals hold on applications never seen, and are they narrower than one width?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import LEVEL
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.figures import per_application
from berth.predictor.learning.relative.trust import next_application_quantile
from lab.relative.nested import Fold, in_row_order

_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class IntervalFigures:
    """Nominal 90 % intervals of one family on held-out applications, which weigh the same."""

    coverage: float
    coverage_low: float
    coverage_high: float
    """90 % bootstrap interval over applications of the coverage itself."""
    worst_application: float
    """Coverage of the application that is covered least."""
    winkler: float
    """Mean interval score in log time; less is better."""
    winkler_constant: float
    """The same of one width for all rows and platforms, learnt by the same rule."""
    factor: float
    """Median over rows and platforms of upper over middle time."""
    by_platform: dict[str, float]
    """Coverage of each platform."""


def interval_figures(rows: Rows, folds: Sequence[Fold], *, seed: int = 0) -> IntervalFigures:
    """Figures over all folds."""
    targets = [c for c in range(len(rows.platforms)) if c != rows.reference_column]

    def of_targets(pieces: Sequence[Floats]) -> Floats:
        return in_row_order(folds, pieces)[:, targets]

    def by_application(values: Floats) -> Floats:
        return per_application(values, rows.applications, np.nanmean)

    widths = of_targets([f.trust.log_widths(f.asked, f.log_predicted) for f in folds])
    constant = of_targets([np.full_like(f.log_predicted, _constant(f)) for f in folds])
    off = np.abs(rows.log_seconds[:, targets] - of_targets([f.log_predicted for f in folds]))
    inside = np.where(np.isfinite(off), (off <= widths).astype(np.float64), np.nan)
    coverage = by_application(inside)
    drawn = np.random.default_rng(seed).choice(coverage, (_RESAMPLES, len(coverage)))
    low, high = np.quantile(drawn.mean(axis=1), [0.05, 0.95])
    return IntervalFigures(
        coverage=float(coverage.mean()),
        coverage_low=float(low),
        coverage_high=float(high),
        worst_application=float(coverage.min()),
        winkler=float(by_application(_winkler(off, widths)).mean()),
        winkler_constant=float(by_application(_winkler(off, constant)).mean()),
        factor=float(np.exp(np.median(widths))),
        by_platform={
            rows.platforms[c]: float(by_application(inside[:, n]).mean())
            for n, c in enumerate(targets)
        },
    )


def _constant(fold: Fold) -> float:
    errors = np.abs(fold.train.log_seconds - fold.log_inner)
    errors[:, fold.train.reference_column] = np.nan
    return next_application_quantile(errors, fold.train.applications)


def _winkler(off: Floats, widths: Floats) -> Floats:
    return np.asarray(2 * widths + 2 / (1 - LEVEL) * np.maximum(off - widths, 0.0))
