"""Held-out errors of language models by situation, and the interval widths that follow.

Nested: effects, kernels, their scales and the rows' noise are all learnt without the part left
out. Splits, from easy to hard:

* rows at random (a fifth a fold; a third of the serving data);
* (hardware, framework, model) blocks;
* (accelerator, framework) pairs;
* one accelerator after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import group_quantile
from berth.predictor.families.language_model.bundle import Situation, Width
from berth.predictor.families.language_model.physics import OFFLINE, TPOT, TTFT, Effects
from berth.predictor.learning.folds import group_mean
from berth.predictor.learning.resume import Resume
from lab.ground.evaluate import Family, held_out
from lab.ground.splits import Fold, Split
from lab.ground.table import Places, Strings, Table
from lab.llm.cases import Cases
from lab.llm.effects import fit_effects, physics
from lab.llm.process import SERVED_ROWS, Process, fit_process, fit_terms

FOLDS = {OFFLINE: 5, TTFT: 3, TPOT: 3}
ROWS, BLOCKS, PAIRS, ACCELERATORS = "rows", "blocks", "pairs", "accelerators"
SITUATION = {
    ROWS: Situation.BLOCK,
    BLOCKS: Situation.PAIR,
    PAIRS: Situation.APART,
    ACCELERATORS: Situation.NEW,
}
"""The situation that each split measures."""
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
        PAIRS: lambda t: t.groups("accelerators", "frameworks"),
        ACCELERATORS: "accelerators",
    }[split]
    groups = len(set(Split(split, by).groups(table).tolist()))
    count = None if split == ACCELERATORS else min(FOLDS[table.head], groups)
    return Split(split, by, count).folds(table, seed)


def as_served(learnt: Cases, asked: Cases, seed: int) -> Floats:
    """Return [asked, 2] as ``Fit``; where nothing on the accelerator was measured, physics
    alone."""
    new = situations(learnt, asked) == Situation.NEW
    if new.all():
        return np.repeat(physics(asked, fit_effects(learnt))[:, None], 2, axis=1)
    found = fit(learnt, seed).log_seconds(asked)
    found[new, 1] = found[new, 0]
    return found


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
    accelerators, frameworks = set(learnt.accelerators), set(learnt.frameworks)
    pairs = set(zip(learnt.accelerators, learnt.frameworks, strict=True))
    blocks = set(learnt.groups("accelerators", "frameworks", "models").tolist())
    found = []
    names = asked.groups("accelerators", "frameworks", "models").tolist()
    for a, f, block in zip(asked.accelerators, asked.frameworks, names, strict=True):
        if a not in accelerators or f not in frameworks:
            found.append(Situation.NEW)
        elif (a, f) not in pairs:
            found.append(Situation.APART)
        else:
            found.append(Situation.BLOCK if block in blocks else Situation.PAIR)
    return np.array([one.value for one in found])


def of_split(held: Held, split: str) -> Held:
    """Return the rows in the split's situation."""
    return held[held.situation == SITUATION[split].value]


def process_helps(held: Held, split: str) -> bool:
    """Return whether the process has a lesser error than physics alone; blocks weigh the same."""
    mine = of_split(held, split)
    process, alone = (
        group_mean(np.abs(each - mine.measured), mine.block.tolist()) if len(mine) else 0.0
        for each in (mine.process, mine.physics)
    )
    return process < alone


def predicted(held: Held, split: str) -> Floats:
    """Return log seconds, [rows], with the process only where it helps on the other folds.

    In a fold for which the other folds show no gain, the prediction is by physics alone. The choice
    is thus tested on data that it was not made on.
    """
    found = held.process.copy()
    for fold in np.unique(held.fold):
        if not process_helps(held[held.fold != fold], split):
            found[held.fold == fold] = held.physics[held.fold == fold]
    return found


def width(held: Held, split: str) -> Width | None:
    """Return half width of the 90 % interval in the split's situation; None: too few blocks."""
    own = held.situation == SITUATION[split].value
    blocks = held.block[own].tolist()
    if len(set(blocks)) < FEWEST_BLOCKS:
        return None
    off = np.abs(predicted(held, split) - held.measured)[own]
    found = group_quantile(off.tolist(), blocks)
    return Width(
        log_width=round(min(max(found, 1e-3), math.log(1e3)), 6),
        rows=len(blocks),
        groups=len(set(blocks)),
        split=split,
        process=process_helps(held, split),
    )


def coverage(held: Held, split: str) -> tuple[float, float] | None:
    """Share of rows inside the interval whose width the other folds gave, and its median factor;
    None: too few blocks."""
    off = np.abs(predicted(held, split) - held.measured)
    own = held.situation == SITUATION[split].value
    inside, factors = [], []
    for fold in np.unique(held.fold[own]):
        found = width(held[own & (held.fold != fold)], split)
        if found is None:
            return None
        here = off[own & (held.fold == fold)]
        inside += (here <= found.log_width).tolist()
        factors += [math.exp(found.log_width)] * len(here)
    return float(np.mean(inside)), float(np.median(factors))
