"""Predict measured cases of language models that were left out, and how similar they are.

Nested: effects, kernels, their scales and the rows' noise are all learnt without the part left
out. Splits, from easy to hard:

* rows at random (a fifth a fold);
* (hardware, framework, model) blocks;
* models, on all accelerators and with all frameworks;
* one accelerator after the other;
* one server (framework with continuous batching) after the other;
* the lowest and the highest fifth of the lengths, of their ratio, and of the sequences per GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.candidates import (
    RULES,
    MeasuredRows,
    ServingRule,
)
from berth.predictor.families.language_model.physics import MEAN, SATURATED, TermEffects
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
from lab.ground.evaluate import Family, held_out
from lab.ground.resume import Resume
from lab.ground.splits import Fold, Split
from lab.ground.table import Places, Strings, Table
from lab.llm.cases import Cases
from lab.llm.effects import fit_effects, physics
from lab.llm.process import fit_kernels, fit_process

FOLDS = 5
"""Number of folds of a split, except where each accelerator or model is left out in turn."""
ROWS, BLOCKS, MODELS = "rows", "blocks", "models"
ACCELERATORS, FRAMEWORKS, LOADS = "accelerators", "frameworks", "loads"
SPLITS = (ROWS, BLOCKS, MODELS, ACCELERATORS, FRAMEWORKS, LOADS)
_EXTREME = 0.2
"""Share of the rows at each end of a range of loads that is left out together."""
RELATIVE, FRAMEWORK = "relative", "framework"
"""Situations of rows whose accelerator, or server, another stands for."""


@dataclass(frozen=True)
class Fit:
    """Calibrated physics and the Gaussian process, fitted on the same rows."""

    effects: TermEffects
    process: Residual

    measured: MeasuredRows

    def log_seconds(self, table: Cases) -> Floats:
        """Return [rows, rules]: by each rule, in the order of ``RULES``."""
        alone = physics(table, self.effects)
        devices, roofs = [case.device for case in table.cases], log_roofs(table.head, table.cases)
        plain = self.measured.plain(devices, table.ties, table.numbers, roofs)
        return np.column_stack([plain, alone, alone + self.process(table.ties, table.numbers)])


@dataclass(frozen=True)
class Held(Table):
    """Rows that were left out; natural logarithms of seconds."""

    row: Places
    fold: Places
    block: Strings
    similarity: tuple[Similarity, ...]
    measured: Floats
    by_rule: Floats
    """[rows, rules]"""

    @property
    def process(self) -> Floats:
        """Return what calibrated physics with the process predicts, [rows]."""
        learnt: Floats = self.by_rule[:, RULES.index(ServingRule.LEARNT)]
        return learnt

    def distance(self, part: str) -> Floats:
        """Return the distance of each row's load, ``lengths`` or ``sequences``, in natural log."""
        return np.array([getattr(each, part) for each in self.similarity])

    @property
    def situation(self) -> Strings:
        """Return the situation of each row; ``relative`` on a device that was not measured,
        ``framework`` with a server that was not."""
        return np.array([
            (FRAMEWORK if each.framework else each.situation.value) if each.is_measured
            else RELATIVE
            for each in self.similarity
        ])  # fmt: skip


def fit(table: Cases, seed: int) -> Fit:
    """Fit the effects, then the Gaussian process on their residuals."""
    effects = fit_effects(table)
    missed = table.log_seconds - physics(table, effects)
    kernels, noise = fit_kernels(table.head, table.ties, table.numbers, missed, seed)
    process = fit_process(kernels, noise, table.ties, table.numbers, missed)[0]
    return Fit(effects, process, measured_rows(table))


def measured_rows(table: Cases) -> MeasuredRows:
    """Return what the plain rules need of the measured rows."""
    return MeasuredRows(
        table.codes.accelerators, table.ties, table.numbers, table.log_seconds,
        log_roofs(table.head, table.cases),
    )  # fmt: skip


def folds(table: Cases, split: str, seed: int) -> list[Fold]:
    """Return the folds of a split by its name; none where a single server was measured."""
    if split == LOADS:
        return _extremes(table)
    if split == FRAMEWORKS:
        servers = np.array([name.removesuffix(MEAN) for name in table.frameworks])
        names = sorted(set(servers.tolist()) & set(SERVERS))
        parts = [(servers != name, servers == name) for name in names if len(names) > 1]
        return [Fold(*map(np.flatnonzero, part)) for part in parts]
    by = {
        ROWS: None,
        BLOCKS: "blocks",
        MODELS: "models",
        ACCELERATORS: "accelerators",
    }[split]
    groups = len(set(Split(split, by).groups(table).tolist()))
    in_turn = split == ACCELERATORS or (split == MODELS and table.head == SATURATED)
    count = None if in_turn else min(FOLDS, groups)
    return Split(split, by, count).folds(table, seed)


def _extremes(table: Cases) -> list[Fold]:
    """Return a fold for each end of the range of prompts, length ratios and sequences per GPU."""
    loads = np.array([load_of(case) for case in table.cases])
    rows = np.arange(len(table))
    parts = []
    for name in ("input tokens", "input per output token", "sequences per GPU"):
        values = loads[:, LOAD.index(name)]
        low, high = np.quantile(values, [_EXTREME, 1 - _EXTREME])
        if low < high:
            parts += [np.flatnonzero(values <= low), np.flatnonzero(values >= high)]
    return [Fold(np.setdiff1d(rows, part), part) for part in parts]


def as_served(learnt: Cases, asked: Cases, seed: int) -> Floats:
    """Return [asked, rules] as ``Fit``; accelerators that were not measured take the effects and
    the residual of their nearest relative."""
    return fit(learnt, seed).log_seconds(by_relatives(learnt, asked))


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


def leave_out(
    table: Cases,
    parts: list[Fold],
    seed: int,
    *,
    resume: Resume | None = None,
    key: str = "",
    advance: Callable[..., None] = lambda *_: None,
) -> Held:
    """Return the test rows of each fold, predicted by a fit on the fold's training rows."""
    ours: Family[Cases] = Family("ours", lambda learnt, asked, _: as_served(learnt, asked, seed))
    out = held_out(ours, table, parts, seed=seed, resume=resume, key=key, advance=advance)
    return Held(
        row=out.rows,
        fold=out.fold,
        block=np.array(table.blocks)[out.rows],
        similarity=tuple(
            each for p in parts for each in similarities(table[p.train], table[p.test])
        ),
        measured=table.log_seconds[out.rows],
        by_rule=out.log_predicted,
    )


def similarities(learnt: Cases, asked: Cases) -> list[Similarity]:
    """Return how similar each asked case is to the training cases."""
    cells = cells_in(learnt)
    return [
        similarity_of(case, framework, cells)
        for case, framework in zip(asked.cases, asked.frameworks, strict=True)
    ]
