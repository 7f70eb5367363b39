"""Error statistics ("trust") for intervals of relative predictions, learnt from held-out
applications.

With few applications exact group-conformal intervals are infinite: a 90 % interval needs nine
applications, and then is the worst row of all. This module uses a hierarchical model instead: each
application has its own error scale, the log scale of the next application is drawn from a Student t
fitted to the scales seen, and the interval is a quantile of that mixture of scales times the
distribution of scaled residuals. Exact conformal intervals: Lee, Barber, Willett 2023; Dunn,
Wasserman, Ramdas 2022 (subsampling within groups). The model here is not distribution-free; its
coverage is measured, see ``lab.relative.uncertainty``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import t as student

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import LEVEL
from berth.predictor.families.relative.joint import expected_regret
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.trust import Difficulty, Neighbours, Trust, signals
from berth.predictor.learning.relative.figures import log_regrets

LEAST_APPLICATIONS = 4
"""Smallest number of applications from which trust is fitted."""
WIDTH = 0.5
SHRINKAGE = 0.3
_RIDGE = 2.0
"""Ridge penalty on the slopes of difficulty, in units of the total weight; slopes stay at 0 or
above."""
_FLOOR = 0.1
"""Error in log time added before the log is taken, so that a lucky hit does not look easy."""
_SCALES = 99
"""Number of quantiles that represent the next application's scale."""
_PRIOR_REGRET = 0.05
"""Log regret added to realised and expected regret before their ratio is taken."""


def fit_trust(rows: Rows, log_held_out: Floats) -> Trust:
    """Return the error statistics of held-out predictions, with the expected regret scaled to the
    observed one.

    Raises UsageError for fewer than four applications: they do not bound the error on a fifth.
    """
    applications = sorted(set(rows.applications))
    if len(applications) < LEAST_APPLICATIONS:
        raise UsageError(
            f"{len(applications)} applications are too few to say how far predictions of another "
            "can be trusted",
            hint=f"at least {LEAST_APPLICATIONS} are needed",
        )
    names, expected = np.array(rows.applications), np.zeros(len(rows))
    for name in applications:
        held, rest = np.flatnonzero(names == name).tolist(), np.flatnonzero(names != name).tolist()
        others = fit_residuals(rows.take(rest), log_held_out[rest])
        joints = others.joints(rows.take(held).knowing(), log_held_out[held])
        expected[held] = [math.log(expected_regret(joint)) for joint in joints]
    weights = rows.weights()
    realised = float(np.average(log_regrets(rows, log_held_out), weights=weights))
    signalled = float(np.average(expected, weights=weights))
    share = min(1.0, (realised + _PRIOR_REGRET) / (signalled + _PRIOR_REGRET))
    return replace(fit_residuals(rows, log_held_out), regret_share=share)


def fit_residuals(rows: Rows, log_held_out: Floats) -> Trust:
    """Return the error statistics of held-out predictions, before the expected regret is scaled."""
    errors = rows.log_seconds - log_held_out
    errors[:, rows.reference_column] = np.nan
    names, weights = np.array(rows.applications), rows.weights()
    signalled = np.empty((*errors.shape, 2))
    for name in sorted(set(rows.applications)):
        held = np.flatnonzero(names == name).tolist()
        others = Neighbours.fit(rows.take(np.flatnonzero(names != name).tolist()))
        signalled[held] = signals(others, rows.take(held), log_held_out[held])
    scaled = np.empty_like(errors)
    for name in sorted(set(rows.applications)):
        out, rest = names == name, names != name
        difficulty = fit_difficulty(signalled[rest], np.abs(errors[rest]), weights[rest])
        scaled[out] = errors[out] / difficulty.scale(signalled[out])
    return Trust(
        platforms=rows.platforms,
        reference=rows.reference,
        neighbours=Neighbours.fit(rows),
        difficulty=fit_difficulty(signalled, np.abs(errors), weights),
        residuals=scaled,
        quantile=next_application_quantile(np.abs(scaled), rows.applications),
        width=WIDTH,
        shrinkage=SHRINKAGE,
        regret_share=1.0,
    )


def fit_difficulty(signalled: Floats, errors: Floats, weights: Floats) -> Difficulty:
    """Return the scale of ``errors`` as a function of platform and signals (distance to, and
    disagreement with, training rows).

    ``errors``: rows x platforms, NaN: no label.
    """
    known = np.isfinite(errors)
    squares = np.where(known, errors, 0.0) ** 2 * weights[:, None]
    total = (known * weights[:, None]).sum(axis=0)
    overall = max(float(squares.sum() / max(total.sum(), 1e-300)), 1e-6) ** 0.5
    own = np.sqrt(squares.sum(axis=0) / np.maximum(total, 1e-300))
    # Shrink a platform's own scale half way to the overall one: it rests on few applications.
    platform = np.where(total > 0, np.sqrt(np.maximum(own, 1e-3) * overall), overall)
    design, counts = signalled[known], np.broadcast_to(weights[:, None], errors.shape)[known]
    centre, spread = design.mean(axis=0), np.maximum(design.std(axis=0), 1e-9)
    columns = np.column_stack([np.ones(len(design)), (design - centre) / spread])
    wanted = np.log(_FLOOR + (errors / platform)[known])
    penalty = np.diag([0.0, *[_RIDGE * counts.sum()] * design.shape[1]])
    left = (columns * counts[:, None]).T @ columns + penalty
    slopes = np.linalg.solve(left, (columns * counts[:, None]).T @ wanted)
    slopes[1:] = np.maximum(slopes[1:], 0.0)
    return Difficulty(platform, centre, spread, slopes)


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
