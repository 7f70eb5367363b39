"""Held-out errors of language models by situation, and the interval widths that follow.

Nested: effects, kernels, their scales and the rows' noise are all learnt without the part left
out. Splits, from easy to hard:

* rows at random (a fifth a fold; a third of the serving data);
* (hardware, framework, model) blocks;
* models, on all accelerators and with all frameworks;
* (accelerator, framework) pairs;
* one accelerator after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import group_quantile
from berth.predictor.families.language_model.bundle import Width
from berth.predictor.families.language_model.physics import OFFLINE, SATURATED, TPOT, TTFT, Effects
from berth.predictor.families.language_model.residual import UNKNOWN
from berth.predictor.families.language_model.situation import (
    Cell,
    Situation,
    cells_of,
    situation_of,
    stands_for,
)
from lab.ground.evaluate import Family, held_out
from lab.ground.resume import Resume
from lab.ground.splits import Fold, Split, group_mean
from lab.ground.table import Flags, Places, Strings, Table
from lab.llm.cases import Cases
from lab.llm.effects import fit_effects, physics
from lab.llm.process import SERVED_ROWS, Process, fit_process, fit_terms

FOLDS = {OFFLINE: 5, SATURATED: 5, TTFT: 3, TPOT: 3}
ROWS, BLOCKS, MODELS = "rows", "blocks", "models"
PAIRS, ACCELERATORS = "pairs", "accelerators"
SPLITS = (ROWS, BLOCKS, MODELS, PAIRS, ACCELERATORS)
MEASURED_BY = {
    Situation.BLOCK: ((ROWS, Situation.BLOCK),),
    Situation.PAIR: ((BLOCKS, Situation.PAIR), (BLOCKS, Situation.APART)),
    Situation.MODEL: ((MODELS, Situation.MODEL), (MODELS, Situation.APART)),
    Situation.RELATIVE: ((ACCELERATORS, Situation.RELATIVE), (ACCELERATORS, Situation.NEW)),
    Situation.APART: ((PAIRS, Situation.APART), (MODELS, Situation.APART)),
    Situation.NEW: ((ACCELERATORS, Situation.NEW),),
}
"""The held-out rows that measure each situation; the second ones, which are less similar or of
another split, where the first are of too few blocks."""
FEWEST_BLOCKS = 10


@dataclass(frozen=True)
class Fit:
    """Calibrated physics and the Gaussian process, fitted on the same rows."""

    effects: Effects
    process: Process

    def log_seconds(self, table: Cases) -> Floats:
        """Return [rows, 2]: by calibrated physics alone, and with the process."""
        alone = physics(table, self.effects)
        return np.column_stack([alone, alone + self.process(table.ties, table.numbers)])


@dataclass(frozen=True)
class Held(Table):
    """Rows that were left out; natural logarithms of seconds."""

    row: Places
    fold: Places
    block: Strings
    situation: Strings
    measured: Floats
    physics: Floats
    """By calibrated physics alone."""
    process: Floats
    """With the process."""


def fit(table: Cases, seed: int) -> Fit:
    """Fit the effects, then the Gaussian process on their residuals."""
    effects = fit_effects(table)
    missed = table.log_seconds - physics(table, effects)
    terms, noise = fit_terms(table.head, table.ties, table.numbers, missed, seed)
    rows = SERVED_ROWS[table.head]
    return Fit(effects, fit_process(terms, noise, table.ties, table.numbers, missed, rows=rows)[0])


def folds(table: Cases, split: str, seed: int) -> list[Fold]:
    """Return the folds of a split by its name."""
    by = {
        ROWS: None,
        BLOCKS: "blocks",
        MODELS: "models",
        PAIRS: lambda t: t.groups("accelerators", "frameworks"),
        ACCELERATORS: "accelerators",
    }[split]
    groups = len(set(Split(split, by).groups(table).tolist()))
    few = split == MODELS and table.head == SATURATED
    count = None if split == ACCELERATORS or few else min(FOLDS[table.head], groups)
    return Split(split, by, count).folds(table, seed)


def as_served(learnt: Cases, asked: Cases, seed: int) -> Floats:
    """Return [asked, 2] as ``Fit``; accelerators that were not measured take the effects and the
    residual of their nearest relative."""
    return fit(learnt, seed).log_seconds(by_relatives(learnt, asked))


def by_relatives(learnt: Cases, asked: Cases) -> Cases:
    """Return the asked cases with the names of the accelerators that stand for theirs."""
    cells = cells_in(learnt)
    known: dict[tuple[str, ...], str] = {}
    names = []
    for case, framework, model in zip(asked.cases, asked.frameworks, asked.models, strict=True):
        key = (case.device.sheet.name, framework, model, str(case.load.weight_bits))
        if key not in known:
            known[key] = stands_for(case, framework, cells)
        names.append(known[key])
    tied = asked.ties.copy()
    tied[:, 0] = [
        asked.codes.accelerators.index(name) if name in asked.codes.accelerators else UNKNOWN
        for name in names
    ]
    return replace(asked, accelerators=tuple(names), ties=tied)


def cells_in(table: Cases) -> tuple[Cell, ...]:
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
        situation=np.concatenate([situations(table[p.train], table[p.test]) for p in parts]),
        measured=table.log_seconds[out.rows],
        physics=out.log_predicted[:, 0],
        process=out.log_predicted[:, 1],
    )


def situations(learnt: Cases, asked: Cases) -> Strings:
    """Return the ``Situation`` of each asked case: how similar it is to the training cases."""
    cells = cells_in(learnt)
    return np.array([
        situation_of(case, framework, cells).value
        for case, framework in zip(asked.cases, asked.frameworks, strict=True)
    ])  # fmt: skip


def process_helps(held: Held, situation: Situation) -> bool:
    """Return whether the process has a lesser error than physics alone in a situation; blocks weigh
    the same."""
    own = held[held.situation == situation.value]
    process, alone = (
        group_mean(np.abs(each - own.measured), own.block.tolist()) if len(own) else 0.0
        for each in (own.process, own.physics)
    )
    return process < alone


def predicted(held: Held) -> Floats:
    """Return log seconds, [rows], with the process only where it helps on the other folds.

    In a fold and situation for which the other folds show no gain, the prediction is by physics
    alone. The choice is thus tested on data that it was not made on.
    """
    log_seconds = held.process.copy()
    for situation in np.unique(held.situation).tolist():
        for fold in np.unique(held.fold):
            if not process_helps(held[held.fold != fold], Situation(situation)):
                own = (held.fold == fold) & (held.situation == situation)
                log_seconds[own] = held.physics[own]
    return log_seconds


def width(held: Held, split: str, situation: Situation) -> Width | None:
    """Return half width of the 90 % interval in a situation; None: too few blocks."""
    own = held.situation == situation.value
    blocks = held.block[own].tolist()
    if len(set(blocks)) < FEWEST_BLOCKS:
        return None
    off = np.abs(predicted(held) - held.measured)[own]
    quantile = group_quantile(off.tolist(), blocks)
    return Width(
        log_width=round(min(max(quantile, 1e-3), math.log(1e3)), 6),
        rows=len(blocks),
        groups=len(set(blocks)),
        split=split,
        process=process_helps(held, situation),
    )


def widths_of(held: Mapping[str, Held]) -> dict[Situation, Width]:
    """Return the widths by situation, from the held-out rows of each split."""
    found = {}
    for situation in MEASURED_BY:
        if (own := _first_width(held, situation)) is not None:
            found[situation] = own
    return found


def _first_width(held: Mapping[str, Held], situation: Situation) -> Width | None:
    """Return the width of a situation by the first rows of ``MEASURED_BY`` that are enough."""
    for split, own in MEASURED_BY[situation]:
        if split in held and (found := width(held[split], split, own)) is not None:
            return found
    return None


def coverage(held: Held, split: str, rows: Flags | None = None) -> tuple[float, float] | None:
    """Return the share of rows inside the interval that the other folds gave in their situation,
    and its median factor; None: too few blocks.

    ``rows``: only these, [rows]; otherwise those in a situation that the split measures.
    """
    measured = [each.value for each, rows_of in MEASURED_BY.items() if rows_of[0][0] == split]
    chosen = np.isin(held.situation, measured) if rows is None else rows
    off = np.abs(predicted(held) - held.measured)
    inside, factors = [], []
    for fold in np.unique(held.fold[chosen]):
        others = held[held.fold != fold]
        for situation in np.unique(held.situation[chosen & (held.fold == fold)]).tolist():
            own = chosen & (held.fold == fold) & (held.situation == situation)
            calibrated = _first_width({split: others}, Situation(situation))
            if calibrated is None and rows is None:
                return None
            if calibrated is not None:
                inside += (off[own] <= calibrated.log_width).tolist()
                factors += [math.exp(calibrated.log_width)] * int(own.sum())
    return (float(np.mean(inside)), float(np.median(factors))) if inside else None
