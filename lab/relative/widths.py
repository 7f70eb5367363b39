"""Widths of the intervals of relative predictions, from applications that were left out.

With few applications exact group-conformal intervals are infinite: a 90 % interval needs nine
applications, and then is the worst row of all. This module uses a hierarchical model instead: each
application has its own error scale, the log scale of the next application is drawn from a Student t
fitted to the scales seen, and the interval is a quantile of that mixture of scales times the
distribution of scaled residuals. Exact conformal intervals: Lee, Barber, Willett 2023; Dunn,
Wasserman, Ramdas 2022 (subsampling within groups). The model here is not distribution-free.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import LEVEL
from berth.predictor.families.relative.rows import Rows

LEAST_APPLICATIONS = 4
"""Smallest number of applications from which widths are learnt: fewer do not bound the error on
another."""
_SCALES = 99
"""Number of quantiles that represent the next application's scale."""


def log_widths(rows: Rows, log_held_out: Floats) -> dict[str, float]:
    """Return the half width of the 90 % interval in log time of a new application, by platform.

    ``log_held_out``: [rows, platforms] log seconds predicted without the row's application. A
    platform's own error scale is shrunk half way to that of all, because it rests on few
    applications; without times it has that of all.
    """
    errors = np.abs(rows.log_seconds - log_held_out)
    errors[:, rows.reference_column] = np.nan
    known = np.isfinite(errors)
    weights = known * rows.weights()[:, None]
    squares = (weights * np.where(known, errors, 0.0) ** 2).sum(axis=0)
    total = weights.sum(axis=0)
    overall = max(float(squares.sum() / total.sum()), 1e-6) ** 0.5
    own = np.sqrt(squares / np.maximum(total, 1e-300))
    scale = np.where(total > 0, np.sqrt(np.maximum(own, 1e-3) * overall), overall)
    widths = scale * next_application_quantile(errors / scale, rows.applications)
    return dict(zip(rows.platforms, widths.tolist(), strict=True)) | {rows.reference: 0.0}


def next_application_quantile(
    scores: Floats, applications: Sequence[str], level: float = LEVEL
) -> float:
    """Return the score below which a share ``level`` of the scores of an unseen application lies.

    ``scores``: rows x platforms, at least 0; NaN: no label.
    """
    names = np.array(applications)
    parts = [scores[names == name] for name in sorted(set(applications))]
    parts = [part[np.isfinite(part)] for part in parts]
    parts = [np.maximum(part, 1e-3) for part in parts if part.size]
    own = np.array([0.5 * np.log(np.mean(part**2)) for part in parts])
    count = len(own)
    places = (np.arange(_SCALES) + 0.5) / _SCALES
    reach = float(own.std(ddof=1)) * np.sqrt(1 + 1 / count)
    scales = own.mean() + reach * student.ppf(places, count - 1)
    shape = np.concatenate([np.log(p) - mean for p, mean in zip(parts, own, strict=True)])
    weight = np.concatenate([np.full(p.size, 1 / p.size) for p in parts])
    values = (scales[:, None] + shape).ravel()
    weights = np.tile(weight, _SCALES)
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(np.exp(values[order][min(np.searchsorted(reached, level), len(order) - 1)]))
