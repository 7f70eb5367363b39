"""``python -m lab uncertainty``: intervals, abstention and probes of each family."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.evaluation import loaded
from berth.predictor.learning.relative.family import Entry, Family
from berth.predictor.learning.relative.trust import fit_trust
from berth.predictor.learning.resume import Resume
from lab.relative.abstention import AbstentionFigures, abstention_figures
from lab.relative.intervals import IntervalFigures, interval_figures
from lab.relative.nested import fits, nested
from lab.relative.probing import ProbingFigures, probing_figures

SPLIT = (
    "nested leave-one-application-out: errors, intervals, thresholds and advice of a held-out "
    "application come from models and residuals of the other applications only"
)


@dataclass(frozen=True, slots=True)
class TrustResult:
    """One family."""

    family: str
    what: str
    intervals: IntervalFigures
    abstention: tuple[AbstentionFigures, ...]
    probing: ProbingFigures


@dataclass(frozen=True, slots=True)
class TrustEvaluation:
    """All families."""

    data: str
    split: str
    rows: int
    applications: int
    reference: str
    seed: int
    results: tuple[TrustResult, ...]
    left_out: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def evaluate_trust(
    rows: Rows,
    entries: Iterable[Entry],
    *,
    data: str,
    seed: int,
    resume: Resume | None = None,
    advance: Callable[[], None] = lambda: None,
) -> TrustEvaluation:
    """Every family of ``entries``; models that ``resume`` holds predictions of are not refitted."""
    families, left_out = loaded(entries)
    return TrustEvaluation(
        data=data,
        split=SPLIT,
        rows=len(rows),
        applications=len(set(rows.applications)),
        reference=rows.reference,
        seed=seed,
        results=tuple(_one(rows, family, seed, resume, advance) for family in families),
        left_out=left_out,
    )


def steps(rows: Rows, families: int) -> int:
    """How often ``evaluate_trust`` calls ``advance``."""
    return families * fits(rows)


def _one(
    rows: Rows, family: Family, seed: int, resume: Resume | None, advance: Callable[[], None]
) -> TrustResult:
    folds = nested(rows, family, seed=seed, resume=resume, advance=advance)
    trusts = [fit_trust(fold.train, fold.log_inner) for fold in folds]
    return TrustResult(
        family=family.name,
        what=family.what,
        intervals=interval_figures(rows, folds, trusts, seed=seed),
        abstention=tuple(abstention_figures(rows, folds, trusts)),
        probing=probing_figures(rows, folds, trusts, seed=seed),
    )
