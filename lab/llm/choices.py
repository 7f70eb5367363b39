"""Which rule answers where something is new (``families.language_model.candidates``).

For each novelty, folds that leave just that out: an accelerator, all accelerators of one software,
a model, a version of a server and its later ones, the ends of the loads. All four rules predict the
same rows, learnt from the same others. What Berth is printed with is nested: for each fold the rule
is decided by the other folds of its kind. The folds are of at most ``DECIDING_ROWS`` rows of a
head, drawn at random: a decision needs no more, and the residual's cost grows with their cube.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import kendalltau

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import group_quantile
from berth.predictor.families.language_model.candidates import (
    RULES,
    Novelty,
    RuleChoice,
    RuleErrors,
    decide,
)
from berth.predictor.families.language_model.framework import release
from berth.predictor.families.language_model.physics import MEAN
from berth.predictor.hardware.catalogue import devices
from lab.ground.report import Section
from lab.ground.resume import Resume
from lab.ground.splits import Fold
from lab.ground.table import Flags, Places, Strings
from lab.llm.cases import Cases, table
from lab.llm.situations import ACCELERATORS, LOADS, MODELS, Held, folds, leave_out

DECIDING_ROWS = 1000
FEWEST = 10
"""Fewest rows of a version that make a fold."""
MAKERS, VERSIONS = "makers", "versions"
FOLDS_OF = {
    Novelty.MAKER: MAKERS, Novelty.DEVICE: ACCELERATORS, Novelty.EXPERTS: MODELS,
    Novelty.MODEL: MODELS, Novelty.VERSION: VERSIONS, Novelty.LOAD: LOADS,
}  # fmt: skip
"""The folds that each novelty is measured on."""


@dataclass(frozen=True)
class NovelRows:
    """Held-out rows in which one thing is new."""

    novelty: Novelty
    measured: Floats
    by_rule: Floats
    """[rows, rules]"""
    fold: Places
    block: Strings

    def errors(self, rows: Flags | bool = True) -> dict[str, RuleErrors]:
        """Return the errors of each rule on some of the rows."""
        chosen = np.ones(len(self.measured), dtype=bool) & rows
        return {
            rule: errors_of(self.measured[chosen], self.by_rule[chosen, i], self.block[chosen])
            for i, rule in enumerate(RULES)
        }

    def nested(self) -> tuple[Floats, Floats]:
        """Return log seconds by the rule that the other folds decide for each fold, and the half
        width that it needed there, [rows] each."""
        answers, widths = np.empty(len(self.measured)), np.empty(len(self.measured))
        for fold in np.unique(self.fold):
            own = self.fold == fold
            others = ~own if (~own).any() else own
            errors = self.errors(others)
            rule = decide(errors)  # type: ignore[arg-type]
            answers[own] = self.by_rule[own, RULES.index(rule)]
            widths[own] = errors[rule].log_width
        return answers, widths

    def choice(self) -> RuleChoice:
        """Return the rule that all folds decide, with all errors."""
        errors = self.errors()
        return RuleChoice(
            novelty=self.novelty, rows=len(self.measured), folds=len(set(self.fold.tolist())),
            rule=decide(errors), errors=errors,  # type: ignore[arg-type]
        )  # fmt: skip


def errors_of(measured: Floats, predicted: Floats, blocks: Strings) -> RuleErrors:
    """Return the errors of log seconds; the width is of blocks that weigh the same."""
    off = predicted - measured
    tau = kendalltau(measured, predicted).statistic if len(off) > 1 else 0.0
    try:
        width = group_quantile(np.abs(off).tolist(), blocks.tolist())
    except UsageError:  # too few blocks: all of them are inside
        width = float(np.abs(off).max())
    return RuleErrors(
        median_error=round(float(np.median(np.abs(np.expm1(off)))), 5),
        kendall_tau=round(float(np.nan_to_num(tau)), 4),
        log_width=round(width, 5),
    )


def folds_by(data: Cases, name: str, seed: int) -> list[Fold]:
    """Return the folds of a name in ``FOLDS_OF``; none where one group alone was measured."""
    if name == MAKERS:
        software = np.array([devices()[a].software.partition("-")[0] for a in data.accelerators])
        names = sorted(set(software.tolist()))
        return [_fold(software == each) for each in names if len(names) > 1]
    if name == VERSIONS:
        return _later_versions(data)
    found = folds(data, name, seed)
    return found if len(found) > 1 else []


def _later_versions(data: Cases) -> list[Fold]:
    """Return a fold for each release of a server but the first: its rows are predicted from older
    ones and from other servers."""
    servers = np.array([name.removesuffix(MEAN) for name in data.frameworks])
    releases = [release(version) for version in data.versions]
    found = []
    for server in sorted(set(servers.tolist())):
        of_server = servers == server
        known = sorted({r for r, own in zip(releases, of_server, strict=True) if own} - {(0, 0)})
        for one in known[1:]:
            test = of_server & np.array([r == one for r in releases])
            later = of_server & np.array([r >= one for r in releases])
            if test.sum() >= FEWEST:
                found.append(Fold(np.flatnonzero(~later), np.flatnonzero(test)))
    return found


def _fold(test: Flags) -> Fold:
    return Fold(np.flatnonzero(~test), np.flatnonzero(test))


def novel_rows(
    head: str, seed: int, resume: Resume, key: str, advance: Callable[[], None]
) -> list[NovelRows]:
    """Return the held-out rows of a head by what is new in them, hardest first."""
    whole = table(head)
    drawn = np.random.default_rng(seed).permutation(len(whole))[:DECIDING_ROWS]
    data, held = whole[np.sort(drawn)], {}
    for name in dict.fromkeys(FOLDS_OF.values()):
        if parts := folds_by(data, name, seed):
            held[name] = leave_out(
                data, parts, seed, resume=resume, key=f"{key}/{DECIDING_ROWS}/{name}"
            )
        advance()
    found = (_of(novelty, held[name]) for novelty, name in FOLDS_OF.items() if name in held)
    return [rows for rows in found if len(rows.measured)]


def _of(novelty: Novelty, held: Held) -> NovelRows:
    rows = np.array([
        novelty is Novelty.VERSION or each.novelty is novelty for each in held.similarity
    ])  # fmt: skip
    return NovelRows(
        novelty, held.measured[rows], held.by_rule[rows], held.fold[rows], held.block[rows]
    )


HEADER = (
    "new", "rows", "folds", "Berth", "in 90 % interval", *RULES, "answers", "Berth over best plain"
)  # fmt: skip


def section(title: str, every: list[NovelRows]) -> Section:
    """Return the table of a head: median error and tau of Berth (nested) and of each rule."""
    lines = []
    for rows in every:
        answers, widths = rows.nested()
        nested = errors_of(rows.measured, answers, rows.block)
        inside = float((np.abs(answers - rows.measured) <= widths).mean())
        choice = rows.choice()
        plain = min(choice.errors[rule].median_error for rule in RULES[:2])
        lines.append((
            rows.novelty.value, str(choice.rows), str(choice.folds), _cell(nested),
            f"{inside:.0%}", *(_cell(choice.errors[rule]) for rule in RULES), choice.rule.value,
            f"{nested.median_error / plain:.2f}",
        ))  # fmt: skip
    return Section(title, HEADER, tuple(lines))


def _cell(errors: RuleErrors) -> str:
    return f"{errors.median_error:.1%}, tau {errors.kendall_tau:.2f}"
