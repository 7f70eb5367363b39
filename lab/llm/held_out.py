"""Predict measured cases of language models that were left out, and decide which rule answers.

For each ``Novelty`` there are folds that leave just that out: an accelerator, all accelerators of
one software, a model, a server, a version of a server and its later ones, the ends of the loads, a
(hardware, framework, model), or rows at random. Effects, kernels, their scales and the rows' noise
are all learnt without the part left out, and the four rules (``candidates``) predict the same rows.
What Berth is printed with is nested: for each fold the rule and the width of its interval are
decided by the other folds of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import kendalltau

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import group_quantile
from berth.predictor.families.language_model.candidates import (
    RULES,
    MeasuredRows,
    Novelty,
    RuleChoice,
    RuleErrors,
    decide,
)
from berth.predictor.families.language_model.framework import release
from berth.predictor.families.language_model.physics import MEAN, TermEffects
from berth.predictor.families.language_model.residual import Residual, code
from berth.predictor.families.language_model.roof import log_roofs
from berth.predictor.families.language_model.situation import (
    LOAD,
    SERVERS,
    MeasuredCase,
    Similarity,
    cells_of,
    load_of,
    similarity_of,
)
from berth.predictor.hardware.catalogue import devices
from lab.ground.evaluate import Family, held_out
from lab.ground.report import Section
from lab.ground.resume import Resume
from lab.ground.splits import Fold, Split
from lab.ground.table import Flags, Places, Strings, Table
from lab.llm.cases import Cases, table
from lab.llm.effects import fit_effects, physics
from lab.llm.process import fit_kernels, fit_process

ROWS, BLOCKS, MODELS, ACCELERATORS = "rows", "blocks", "models", "accelerators"
MAKERS, FRAMEWORKS, VERSIONS, LOADS = "makers", "frameworks", "versions", "loads"
FOLDS_OF = {
    Novelty.MAKER: MAKERS, Novelty.DEVICE: ACCELERATORS, Novelty.EXPERTS: MODELS,
    Novelty.MODEL: MODELS, Novelty.VERSION: VERSIONS, Novelty.LOAD: LOADS, Novelty.KIND: BLOCKS,
    Novelty.COMBINATION: BLOCKS, Novelty.SERVER: FRAMEWORKS, Novelty.NOTHING: ROWS,
}  # fmt: skip
"""The folds that each novelty is measured on."""
FOLDS = 5
"""Number of folds by rows, blocks and models; what is left out by other folds is so in turn."""
DECIDING_ROWS = 1000
"""Rows of a head, drawn at random, of all folds but those by rows and blocks: the cost of a
residual grows with their cube."""
FEWEST = 10
"""Fewest rows of a version that make a fold."""
_EXTREME = 0.2
"""Share of the rows at each end of a range of loads that is left out together."""


@dataclass(frozen=True)
class Fit:
    """Calibrated physics and the Gaussian process, fitted on the same rows."""

    effects: TermEffects
    process: Residual
    measured: MeasuredRows
    """Holds what the plain rules need of the measured rows."""

    def log_seconds(self, table: Cases) -> Floats:
        """Return [rows, rules]: by each rule, in the order of ``RULES``."""
        alone = physics(table, self.effects)
        devices, roofs = [case.device for case in table.cases], log_roofs(table.head, table.cases)
        plain = self.measured.plain(devices, table.ties, table.numbers, roofs)
        return np.column_stack([plain, alone, alone + self.process(table.ties, table.numbers)])


def fit(table: Cases, seed: int) -> Fit:
    """Fit the effects, then the Gaussian process on their residuals."""
    effects = fit_effects(table)
    missed = table.log_seconds - physics(table, effects)
    kernels, noise = fit_kernels(table.head, table.ties, table.numbers, missed, seed)
    process = fit_process(kernels, noise, table.ties, table.numbers, missed)[0]
    measured = MeasuredRows(
        table.codes.accelerators, table.ties, table.numbers, table.log_seconds,
        log_roofs(table.head, table.cases),
    )  # fmt: skip
    return Fit(effects, process, measured)


def folds(table: Cases, name: str, seed: int) -> list[Fold]:
    """Return the folds of a name in ``FOLDS_OF``; none where one group alone was measured."""
    if name == LOADS:
        return _extremes(table)
    servers = np.array([framework.removesuffix(MEAN) for framework in table.frameworks])
    if name == VERSIONS:
        return _later_versions(table, servers)
    if name == FRAMEWORKS:
        return _in_turn(servers, set(servers.tolist()) & set(SERVERS))
    if name == MAKERS:
        software = [devices()[a].software.partition("-")[0] for a in table.accelerators]
        return _in_turn(np.array(software), software)
    if name == ACCELERATORS:
        return _in_turn(np.array(table.accelerators), table.accelerators)
    split = Split(name, None if name == ROWS else name)
    groups = len(set(split.groups(table).tolist()))
    return replace(split, count=min(FOLDS, groups)).folds(table, seed) if groups > 1 else []


def _in_turn(column: Strings, names: Iterable[str]) -> list[Fold]:
    each = sorted(set(names))
    return [_fold(column == name) for name in each] if len(each) > 1 else []


def _fold(test: Flags) -> Fold:
    return Fold(np.flatnonzero(~test), np.flatnonzero(test))


def _later_versions(table: Cases, servers: Strings) -> list[Fold]:
    """Return a fold for each release of a server but the first: its rows are predicted from older
    ones and from other servers."""
    releases = [release(version)[:2] for version in table.versions]
    found = []
    for server in sorted(set(servers.tolist())):
        of_server = servers == server
        known = sorted({r for r, own in zip(releases, of_server, strict=True) if own} - {()})
        for one in known[1:]:
            test = of_server & np.array([r == one for r in releases])
            later = of_server & np.array([r >= one for r in releases])
            if test.sum() >= FEWEST:
                found.append(Fold(np.flatnonzero(~later), np.flatnonzero(test)))
    return found


def _extremes(table: Cases) -> list[Fold]:
    """Return a fold for each end of the range of prompts, length ratios and sequences per GPU."""
    loads = np.array([load_of(case) for case in table.cases])
    parts = []
    for name in ("input tokens", "input per output token", "sequences per GPU"):
        values = loads[:, LOAD.index(name)]
        low, high = np.quantile(values, [_EXTREME, 1 - _EXTREME])
        if low < high:
            parts += [_fold(values <= low), _fold(values >= high)]
    return parts


def by_relatives(learnt: Cases, asked: Cases) -> Cases:
    """Return the asked cases with the names of the accelerators and servers that stand for
    theirs."""
    similar = similarities(learnt, asked)
    names = tuple(each.stand_in for each in similar)
    frameworks = tuple(
        each.framework or own for each, own in zip(similar, asked.frameworks, strict=True)
    )
    tied = asked.ties.copy()
    tied[:, 0] = [code(asked.codes.accelerators, name) for name in names]
    tied[:, 1] = [code(asked.codes.frameworks, name) for name in frameworks]
    return replace(asked, accelerators=names, frameworks=frameworks, ties=tied)


def cells_in(table: Cases) -> tuple[MeasuredCase, ...]:
    """Return what was measured, as it is stored in a bundle."""
    return cells_of(zip(table.cases, table.frameworks, table.versions, strict=True))


def similarities(learnt: Cases, asked: Cases) -> list[Similarity]:
    """Return how similar each asked case is to the training cases."""
    cells = cells_in(learnt)
    return [
        similarity_of(case, framework, cells)
        for case, framework in zip(asked.cases, asked.frameworks, strict=True)
    ]


def as_served(learnt: Cases, asked: Cases, seed: int) -> Floats:
    """Return [asked, rules] as ``Fit``; accelerators that were not measured take the effects and
    the residual of their nearest relative."""
    return fit(learnt, seed).log_seconds(by_relatives(learnt, asked))


@dataclass(frozen=True)
class Held(Table):
    """Rows that were left out; natural logarithms of seconds."""

    novelty: Strings
    """Says what is new in each row."""
    measured: Floats
    by_rule: Floats
    """[rows, rules]"""
    fold: Places
    block: Strings

    def errors(self) -> dict[str, RuleErrors]:
        """Return the errors of each rule."""
        return {
            rule: errors_of(self.measured, self.by_rule[:, i], self.block)
            for i, rule in enumerate(RULES)
        }

    def nested(self) -> tuple[Floats, Floats]:
        """Return log seconds by the rule that the other folds decide for each fold, and the half
        width that it needed there, [rows] each."""
        answers, widths = np.empty(len(self)), np.empty(len(self))
        for fold in np.unique(self.fold):
            own = self.fold == fold
            errors = self[~own if (~own).any() else own].errors()
            rule = decide(errors)  # type: ignore[arg-type]
            answers[own] = self.by_rule[own, RULES.index(rule)]
            widths[own] = errors[rule].log_width
        return answers, widths

    def choice(self, novelty: Novelty) -> RuleChoice:
        """Return the rule that all folds decide, with all errors."""
        errors = self.errors()
        return RuleChoice(
            novelty=novelty, rows=len(self), folds=len(set(self.fold.tolist())),
            rule=decide(errors), errors=errors,  # type: ignore[arg-type]
        )  # fmt: skip


def leave_out(
    table: Cases, parts: list[Fold], seed: int, *, resume: Resume | None = None, key: str = ""
) -> Held:
    """Return the test rows of each fold, predicted by a fit on the fold's training rows."""
    ours: Family[Cases] = Family("ours", lambda learnt, asked, _: as_served(learnt, asked, seed))
    out = held_out(ours, table, parts, seed=seed, resume=resume, key=key)
    new = [each.novelty for p in parts for each in similarities(table[p.train], table[p.test])]
    return Held(
        np.array(new), table.log_seconds[out.rows], out.log_predicted, out.fold,
        np.array(table.blocks)[out.rows],
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


def held_rows(
    head: str,
    seed: int,
    *,
    resume: Resume | None = None,
    key: str = "",
    advance: Callable[[], None] = lambda: None,
    novelties: Iterable[Novelty] = FOLDS_OF,
) -> dict[Novelty, Held]:
    """Return the held-out rows of a head by what is new in them, hardest first."""
    whole, held = table(head), {}
    drawn = np.random.default_rng(seed).permutation(len(whole))[:DECIDING_ROWS]
    novelties = list(novelties)
    for name in dict.fromkeys(FOLDS_OF[novelty] for novelty in novelties):
        data = whole if name in {ROWS, BLOCKS} else whole[np.sort(drawn)]
        if parts := folds(data, name, seed):
            held[name] = leave_out(data, parts, seed, resume=resume, key=f"{key}/{name}")
        advance()
    found = {
        novelty: rows[(rows.novelty == novelty) | (novelty is Novelty.VERSION)]
        for novelty in novelties
        if (rows := held.get(FOLDS_OF[novelty])) is not None
    }
    return {novelty: rows for novelty, rows in found.items() if len(rows)}


HEADER = (
    "new", "rows", "folds", "Berth", "in 90 % interval", "interval x", *RULES, "answers",
    "Berth over best plain",
)  # fmt: skip


def section(title: str, by_novelty: dict[Novelty, Held]) -> Section:
    """Return the table of a head: median error and tau of Berth (nested) and of each rule."""
    lines = []
    for novelty, rows in by_novelty.items():
        answers, widths = rows.nested()
        nested = errors_of(rows.measured, answers, rows.block)
        choice = rows.choice(novelty)
        plain = min(choice.errors[rule].median_error for rule in RULES[:2])
        lines.append((
            novelty.value, str(choice.rows), str(choice.folds), _cell(nested),
            f"{coverage(rows):.0%}", f"{np.exp(np.median(widths)):.2f}",
            *(_cell(choice.errors[rule]) for rule in RULES), choice.rule.value,
            f"{nested.median_error / plain:.2f}",
        ))  # fmt: skip
    return Section(title, HEADER, tuple(lines))


def coverage(rows: Held) -> float:
    """Return the share of rows inside the nested 90 % interval."""
    answers, widths = rows.nested()
    return float((np.abs(answers - rows.measured) <= widths).mean())


def _cell(errors: RuleErrors) -> str:
    return f"{errors.median_error:.1%}, tau {errors.kendall_tau:.2f}"
