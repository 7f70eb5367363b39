"""Risk against coverage: what is left to regret among the rows that are answered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.program.range_check import RangeCheck
from berth.predictor.families.relative.probes import expected_regret
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.trust import Trust
from berth.predictor.learning.relative.figures import log_regrets
from berth.predictor.learning.relative.trust import fit_residuals
from lab.relative.nested import Fold, whole

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


@dataclass(frozen=True, slots=True)
class Risks:
    """What answering costs, one a row."""

    regret: Floats
    """Log regret of the pick."""
    error: Floats
    """Median ``|log error|`` over platforms."""
    weights: Floats


def scores(trust: Trust, check: RangeCheck, asked: Rows, log_predicted: Floats) -> Floats:
    """Rows x ``SCORES``: higher is more doubtful."""
    joints = trust.joints(asked, log_predicted)
    places = trust.neighbours.place(asked)
    opinion = asked.log_reference[:, None] - trust.neighbours.opinion(places)
    return np.column_stack(
        [
            [check.distance(row) for row in _log(asked)],
            [math.log(expected_regret(joint)) for joint in joints],
            trust.scale(asked, log_predicted).mean(axis=1),
            np.abs(log_predicted - opinion).mean(axis=1),
        ]
    )


def abstention_figures(
    rows: Rows, folds: Sequence[Fold], trusts: Sequence[Trust]
) -> list[AbstentionFigures]:
    """One a score; every score is first ranked among the fold's own training applications."""
    ranked = []
    for fold, trust in zip(folds, trusts, strict=True):
        plain = replace(trust, regret_share=1.0)
        outer = scores(plain, _check(fold.train), fold.asked, fold.log_predicted)
        inner, weights = _inner_scores(fold), fold.train.weights()
        ranked.append(
            np.column_stack([_rank(o, i, weights) for o, i in zip(outer.T, inner.T, strict=True)])
        )
    predicted, found = whole(folds, [fold.log_predicted for fold in folds]), whole(folds, ranked)
    off = np.abs(rows.log_seconds - predicted)
    off[:, rows.reference_column] = np.nan
    risks = Risks(log_regrets(rows, predicted), np.nanmedian(off, axis=1), rows.weights())
    return [_figures(name, found[:, n], risks) for n, name in enumerate(SCORES)]


def risk_curve(score: Floats, risk: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Share answered and mean risk of the answered, from the least doubtful row on."""
    order = np.argsort(score, kind="stable")
    answered = np.cumsum(weights[order])
    return answered / answered[-1], np.cumsum((risk * weights)[order]) / answered


def area(score: Floats, risk: Floats, weights: Floats) -> float:
    """Mean over shares answered of the mean risk of the answered (AURC)."""
    share, mean = risk_curve(score, risk, weights)
    return float((mean * np.diff(share, prepend=0.0)).sum())


def _figures(name: str, score: Floats, risks: Risks) -> AbstentionFigures:
    regret, error, weights = risks.regret, risks.error, risks.weights
    share, mean = risk_curve(score, regret, weights)
    kept = score <= ANSWERED
    total = float(weights[kept].sum())
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
        answered_regret=math.exp((regret * weights)[kept].sum() / total) if total else math.nan,
        answered_error=float((error * weights)[kept].sum() / total) if total else math.nan,
    )


def _rank(score: Floats, among: Floats, weights: Floats) -> Floats:
    """Share of the weight of ``among`` that is less doubtful than each score."""
    below = (among[None] < score[:, None]) * weights
    return np.asarray(below.sum(axis=1) / weights.sum())


def _inner_scores(fold: Fold) -> Floats:
    names = np.array(fold.train.applications)
    found = np.empty((len(names), len(SCORES)))
    for name in sorted(set(fold.train.applications)):
        held, rest = np.flatnonzero(names == name), np.flatnonzero(names != name)
        others = fold.train.take(rest.tolist())
        trust = fit_residuals(others, fold.log_inner[rest])
        asked = fold.train.take(held.tolist()).knowing()
        found[held] = scores(trust, _check(others), asked, fold.log_inner[held])
    return found


def _check(rows: Rows) -> RangeCheck:
    return RangeCheck.fit(rows.counters, _log(rows), rows.applications)


def _log(rows: Rows) -> Floats:
    return np.log1p(np.maximum(rows.values, 0.0))
