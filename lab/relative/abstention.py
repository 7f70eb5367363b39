"""Risk against coverage: what is left to regret among the rows that are answered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.probes import expected_regret
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.trust import Trust
from berth.predictor.families.relative.trust_file import fit_range, log_counters
from berth.predictor.learning.relative.figures import log_regrets
from berth.predictor.learning.relative.splits import by_application
from berth.predictor.learning.relative.trust import fit_residuals
from lab.relative.nested import Fold, in_row_order

SHARES = (0.5, 0.8, 1.0)
"""Shares answered that the curve is printed at."""
ANSWERED = 0.8
"""The threshold is set where so much of the training weight, held out, would be answered."""
SCORES = ("range check", "expected regret", "interval width", "disagreement")


@dataclass(frozen=True, slots=True)
class AbstentionFigures:
    """One score to abstain by; rows weigh by application."""

    score: str
    area_regret: float
    """Mean log regret among those answered, averaged over shares answered (AURC)."""
    area_error: float
    """The same of a row's median ``|log error|``."""
    random_area_regret: float
    """Of abstaining at random: the mean log regret."""
    random_area_error: float
    regret_at: dict[str, float]
    """Share answered -> regret (geometric mean)."""
    answered: float
    """Share of weight answered with the threshold that the training applications gave."""
    answered_regret: float
    """Regret of those; NaN: none."""
    answered_error: float
    """Mean of their rows' median ``|log error|``."""


def scores(trust: Trust, train: Rows, asked: Rows, log_predicted: Floats) -> Floats:
    """Rows x ``SCORES``: higher is more doubtful. ``trust`` was learnt from ``train``."""
    check = fit_range(train)
    joints = trust.joints(asked, log_predicted)
    similar = trust.neighbours.opinion(trust.neighbours.place(asked))
    return np.column_stack(
        [
            [check.distance(row) for row in log_counters(asked)],
            [math.log(expected_regret(joint)) for joint in joints],
            trust.scale(asked, log_predicted).mean(axis=1),
            np.abs(log_predicted - asked.log_reference[:, None] + similar).mean(axis=1),
        ]
    )


def abstention_figures(rows: Rows, folds: Sequence[Fold]) -> list[AbstentionFigures]:
    """One a score; every score is first ranked among the fold's own training applications."""
    ranked = []
    for fold in folds:
        outer = scores(
            replace(fold.trust, regret_share=1.0), fold.train, fold.asked, fold.log_predicted
        )
        inner, weights = _inner_scores(fold), fold.train.weights()
        # Share of the training weight that is less doubtful than each held-out row.
        below = inner[None] < outer[:, None]
        ranked.append((below * weights[:, None]).sum(axis=1) / weights.sum())
    predicted = in_row_order(folds, [fold.log_predicted for fold in folds])
    found = in_row_order(folds, ranked)
    off = np.abs(rows.log_seconds - predicted)
    off[:, rows.reference_column] = np.nan
    risks = log_regrets(rows, predicted), np.nanmedian(off, axis=1)
    return [_figures(name, found[:, n], *risks, rows.weights()) for n, name in enumerate(SCORES)]


def risk_curve(score: Floats, risk: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Share answered and mean risk of the answered, from the least doubtful row on."""
    order = np.argsort(score, kind="stable")
    answered = np.cumsum(weights[order])
    return answered / answered[-1], np.cumsum((risk * weights)[order]) / answered


def area(score: Floats, risk: Floats, weights: Floats) -> float:
    """Mean over shares answered of the mean risk of the answered (AURC)."""
    share, mean = risk_curve(score, risk, weights)
    return float((mean * np.diff(share, prepend=0.0)).sum())


def _figures(
    name: str, score: Floats, regret: Floats, error: Floats, weights: Floats
) -> AbstentionFigures:
    share, mean = risk_curve(score, regret, weights)
    weight = weights * (score <= ANSWERED)
    total = float(weight.sum())
    return AbstentionFigures(
        score=name,
        area_regret=area(score, regret, weights),
        area_error=area(score, error, weights),
        random_area_regret=float(np.average(regret, weights=weights)),
        random_area_error=float(np.average(error, weights=weights)),
        regret_at={
            f"{s:.0%}": float(np.exp(mean[np.searchsorted(share, s - 1e-9)])) for s in SHARES
        },
        answered=total / float(weights.sum()),
        answered_regret=math.exp(regret @ weight / total) if total else math.nan,
        answered_error=float(error @ weight / total) if total else math.nan,
    )


def _inner_scores(fold: Fold) -> Floats:
    """Of the training rows, each application by what the others teach."""
    found = np.empty((len(fold.train), len(SCORES)))
    for rest, held in by_application(fold.train, 0):
        others = fold.train.take(rest)
        trust = fit_residuals(others, fold.log_inner[rest])
        asked = fold.train.take(held).knowing()
        found[held] = scores(trust, others, asked, fold.log_inner[held])
    return found
