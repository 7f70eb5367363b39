"""Evaluation of intervals, abstention and advised probes, for families of relative performance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import LEVEL
from berth.predictor.families.relative.joint import expected_regret
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.trust import Trust, fit_range, log_counters
from berth.predictor.learning.relative.family import Family, by_application
from berth.predictor.learning.relative.figures import log_regrets, per_application
from berth.predictor.learning.relative.trust import fit_residuals, next_application_quantile
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.ground.resume import Resume
from lab.relative import families
from lab.relative.data import AIWC_DATA, aiwc_rows
from lab.relative.evaluation import loaded
from lab.relative.nested import SPLIT, Fold, fits, in_row_order, nested
from lab.relative.probing import WAYS, ProbingFigures, probing_figures

_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class IntervalFigures:
    """Nominal 90 % intervals of one family on held-out applications, each of the same weight."""

    coverage: float
    coverage_low: float
    coverage_high: float
    """Ends of the 90 % bootstrap interval (over applications) of ``coverage``."""
    worst_application: float
    """Coverage of the application with the least coverage."""
    winkler: float
    """Mean interval score (Winkler) in log time; less is better."""
    winkler_constant: float
    """Winkler score of intervals that have one width for all rows and platforms (baseline)."""
    factor: float
    """Median over rows and platforms of the interval's upper end / predicted time."""
    by_platform: dict[str, float]
    """Coverage of each platform."""


def interval_figures(rows: Rows, folds: Sequence[Fold], *, seed: int = 0) -> IntervalFigures:
    """Return the figures of intervals over all folds."""
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


SHARES = (0.5, 0.8, 1.0)
"""Shares of answered rows at which the regret is reported."""
ANSWERED = 0.8
"""Share of the training weight that would be answered at the threshold of the score."""
SCORES = ("range check", "expected regret", "interval width", "disagreement")


@dataclass(frozen=True, slots=True)
class AbstentionFigures:
    """Figures of abstention by one score of doubt; each application has the same weight.

    *Answered* rows are those for which Berth does not abstain.
    """

    score: str
    area_regret: float
    """Mean log regret of the answered rows, averaged over all shares of answered rows (AURC)."""
    area_error: float
    """AURC of the median ``|log error|`` of a row."""
    random_area_regret: float
    """Baseline of ``area_regret``: abstention at random, which is the mean log regret."""
    random_area_error: float
    """Baseline of ``area_error``: abstention at random."""
    regret_at: dict[str, float]
    """Regret (geometric mean) at each share of answered rows."""
    answered: float
    """Share of weight that is answered with the threshold set on the training applications."""
    answered_regret: float
    """Regret of the rows answered with that threshold; NaN: no row is answered."""
    answered_error: float
    """Mean over these rows of the median ``|log error|``; NaN: no row is answered."""


def scores(trust: Trust, train: Rows, asked: Rows, log_predicted: Floats) -> Floats:
    """Return the scores of doubt, rows x ``SCORES``; ``trust`` was fitted on ``train``."""
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
    """Return the figures of each score; a score is its rank among the fold's training rows."""
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
    """Return the share of answered rows and their mean risk, when rows are answered by score.

    The least doubtful row is answered first.
    """
    order = np.argsort(score, kind="stable")
    answered = np.cumsum(weights[order])
    return answered / answered[-1], np.cumsum((risk * weights)[order]) / answered


def area(score: Floats, risk: Floats, weights: Floats) -> float:
    """Return the area under the risk curve (AURC): mean risk averaged over shares answered."""
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
    """Return scores of the training rows; each application is scored by a fit on the others."""
    found = np.empty((len(fold.train), len(SCORES)))
    for rest, held in by_application(fold.train, 0):
        others = fold.train.take(rest)
        trust = fit_residuals(others, fold.log_inner[rest])
        asked = fold.train.take(held).knowing()
        found[held] = scores(trust, others, asked, fold.log_inner[held])
    return found


@dataclass(frozen=True, slots=True)
class UncertaintyResult:
    """Intervals, abstention and probing of one family."""

    family: str
    what: str
    intervals: IntervalFigures
    abstention: tuple[AbstentionFigures, ...]
    probing: ProbingFigures


def evaluate(options: Options) -> Report:
    """Report on all families (or those in ``options.only``) on the AIWC data set."""
    rows = aiwc_rows()
    wanted, left_out = loaded(families.chosen(options.only))
    results = []
    with step_bar("evaluating", fits(rows) * len(wanted)) as advance:
        for family in wanted:
            resume = Resume(options.unfinished)
            results.append(of_family(rows, family, options.seed, resume, advance))
    return Report(
        "How far predictions of many platforms can be trusted",
        (f"{AIWC_DATA}: {len(rows)} rows of {len(set(rows.applications))} applications, piloted on "
         f"{rows.reference}; seed {options.seed}.", f"Split: {SPLIT}."),
        sections_of(results),
        {"data": AIWC_DATA, "split": SPLIT, "results": results, "left_out": left_out},
        after=tuple(f"left out: {group} ({why})" for group, why in left_out.items()),
    )  # fmt: skip


def of_family(
    rows: Rows,
    family: Family,
    seed: int,
    resume: Resume | None = None,
    advance: Callable[[], None] = lambda: None,
) -> UncertaintyResult:
    """Return the evaluation of one family; ``advance`` is called ``fits(rows)`` times."""
    folds = nested(rows, family, seed=seed, resume=resume, advance=advance)
    return UncertaintyResult(
        family.name,
        family.what,
        interval_figures(rows, folds, seed=seed),
        tuple(abstention_figures(rows, folds)),
        probing_figures(rows, folds, seed=seed),
    )


def sections_of(results: Sequence[UncertaintyResult]) -> tuple[Section, ...]:
    """Return all tables, with a row per family (abstention: per family and score)."""
    expected = [
        (f"expected beforehand: {words}", *(f"{getattr(r.probing, name):.3f}" for r in results))
        for words, name in (
            ("no probe", "expected_now"),
            ("one, advised", "expected_one"),
            ("two, advised at once", "expected_two"),
        )
    ]
    platforms = list(results[0].intervals.by_platform) if results else []
    return (
        Section(
            "Intervals, nominal 90 %, of log time",
            ("family", "coverage", "its 90 % interval", "worst application", "Winkler",
             "of one width", "upper / middle"),
            [
                (r.family, f"{i.coverage:.1%}", f"{i.coverage_low:.0%} to {i.coverage_high:.0%}",
                 f"{i.worst_application:.0%}", f"{i.winkler:.2f}", f"{i.winkler_constant:.2f}",
                 f"{i.factor:.1f}")
                for r in results
                for i in [r.intervals]
            ],
        ),
        Section(
            "Abstention: area under the risk-coverage curve (random: the mean), and what is "
            "answered at the threshold that 80 % of the training weight is under",
            ("family", "score", "log regret", "random", "log error", "random", "answered",
             "its regret", "its log error"),
            [
                (r.family, a.score, f"{a.area_regret:.3f}", f"{a.random_area_regret:.3f}",
                 f"{a.area_error:.3f}", f"{a.random_area_error:.3f}", f"{a.answered:.0%}",
                 f"{a.answered_regret:.3f}", f"{a.answered_error:.3f}")
                for r in results
                for a in r.abstention
            ],
        ),
        Section(
            "Probes: geometric-mean regret of the pick / of the worst application",
            ("way", *(r.family for r in results)),
            [
                (way, *(f"{r.probing.regret[way]:.3f} / {r.probing.worst_regret[way]:.2f}"
                        for r in results))
                for way in WAYS
            ] + expected,
        ),
        Section(
            "Coverage by platform",
            ("platform", *(r.family for r in results)),
            [(p, *(f"{r.intervals.by_platform[p]:.0%}" for r in results)) for p in platforms],
        ),
    )  # fmt: skip
