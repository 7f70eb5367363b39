"""Intervals, abstention and advised probes of families of relative performance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from berth.plugin.cli.output.step_bar import step_bar
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.family import Family
from berth.predictor.learning.resume import Resume
from lab.experiments.options import Options
from lab.ground.report import Report, Section
from lab.relative import families
from lab.relative.abstention import AbstentionFigures, abstention_figures
from lab.relative.data import AIWC_DATA, aiwc_rows
from lab.relative.evaluation import loaded
from lab.relative.intervals import IntervalFigures, interval_figures
from lab.relative.nested import SPLIT, fits, nested
from lab.relative.probing import WAYS, ProbingFigures, probing_figures


@dataclass(frozen=True, slots=True)
class UncertaintyResult:
    """One family."""

    family: str
    what: str
    intervals: IntervalFigures
    abstention: tuple[AbstentionFigures, ...]
    probing: ProbingFigures


def evaluate(options: Options) -> Report:
    """Every family (or those of ``only``) on the AIWC data set."""
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
    """All three of one family; ``advance`` is called ``fits(rows)`` times."""
    folds = nested(rows, family, seed=seed, resume=resume, advance=advance)
    return UncertaintyResult(
        family.name,
        family.what,
        interval_figures(rows, folds, seed=seed),
        tuple(abstention_figures(rows, folds)),
        probing_figures(rows, folds, seed=seed),
    )


def sections_of(results: Sequence[UncertaintyResult]) -> tuple[Section, ...]:
    """All tables, a family a line (abstention: a score a line)."""
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
