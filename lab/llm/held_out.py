"""Predictions of cases that nothing was fitted on, by split, and the widths that follow.

Nested: effects, kernels, their scales and the rows' noise are all learnt without the part left
out. Splits, from easy to hard:

* ``rows``: a part of the rows at random (a fifth; a third of the serving data);
* ``blocks``: a part of the (hardware, framework, model) blocks;
* ``pairs``: a part of the (accelerator, framework) pairs;
* ``accelerators``: one accelerator after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.predictor.core.intervals import group_quantile
from berth.predictor.families.language_model.bundle import Likeness, Width
from berth.predictor.families.language_model.physics import OFFLINE, TPOT, TTFT, Effects, Floats
from berth.predictor.learning.folds import folds
from lab.llm.effects import fit_effects, physics
from lab.llm.process import SERVED_ROWS, Process, fit_process, fit_terms
from lab.llm.table import Table

FOLDS = {OFFLINE: 5, TTFT: 3, TPOT: 3}
ROWS, BLOCKS, PAIRS, ACCELERATORS = "rows", "blocks", "pairs", "accelerators"
SPLITS = {
    ROWS: Likeness.BLOCK,
    BLOCKS: Likeness.PAIR,
    PAIRS: Likeness.APART,
    ACCELERATORS: Likeness.NEW,
}
"""Which likeness each split is for."""


@dataclass(frozen=True)
class Fit:
    """Everything learnt from some rows."""

    effects: Effects
    process: Process

    def log_seconds(self, table: Table) -> tuple[Floats, Floats]:
        """Of a table's rows: calibrated physics alone, and with the process."""
        alone = physics(table, self.effects)
        return alone, alone + self.process(table.ties, table.numbers)


@dataclass(frozen=True)
class Held:
    """One row that was left out."""

    row: int
    fold: int
    block: str
    likeness: Likeness
    measured: float
    """Log seconds."""
    physics: float
    said: float


def fit(table: Table, seed: int) -> Fit:
    """Effects, then the process on what they miss."""
    effects = fit_effects(table)
    missed = table.log_seconds - physics(table, effects)
    terms, noise = fit_terms(table.head, table.ties, table.numbers, missed, seed)
    process, _ = fit_process(
        terms, noise, table.ties, table.numbers, missed, rows=SERVED_ROWS[table.head]
    )
    return Fit(effects, process)


def parts(table: Table, split: str, seed: int) -> list[list[int]]:
    """Rows of each fold."""
    if split == ACCELERATORS:
        names = sorted(set(table.accelerators))
        return [[i for i, a in enumerate(table.accelerators) if a == name] for name in names]
    groups: Sequence[str] = {
        ROWS: [str(i) for i in range(len(table))],
        BLOCKS: table.blocks,
        PAIRS: [f"{a} | {f}" for a, f in zip(table.accelerators, table.frameworks, strict=True)],
    }[split]
    return folds(groups, min(FOLDS[table.head], len(set(groups))), seed)


def left_out(table: Table, part: Sequence[int], fold: int, seed: int) -> list[Held]:
    """Predictions of one part by what the rest teaches."""
    away = np.array(part, dtype=np.int64)
    rest = table.take(np.setdiff1d(np.arange(len(table)), away))
    out = table.take(away)
    likeness = _likeness(rest, out)
    new = np.array([one is Likeness.NEW for one in likeness])
    # As it is served: where nothing alike was measured, physics alone.
    if new.all():
        alone = said = physics(out, fit_effects(rest))
    else:
        alone, said = fit(rest, seed).log_seconds(out)
        said = np.where(new, alone, said)
    return [
        Held(int(row), fold, out.blocks[i], likeness[i], float(out.log_seconds[i]),
             float(alone[i]), float(said[i]))
        for i, row in enumerate(away)
    ]  # fmt: skip


def held_out(
    table: Table, split: str, seed: int, advance: Callable[[], None] = lambda: None
) -> list[Held]:
    """All parts of a split, one after the other."""
    found = []
    for fold, part in enumerate(parts(table, split, seed)):
        found += left_out(table, part, fold, seed)
        advance()
    return found


def helps(held: Sequence[Held], split: str) -> bool:
    """True where the process beats physics alone on the split's likeness, each block alike."""
    lost: dict[str, list[tuple[float, float]]] = {}
    for h in held:
        if h.likeness is SPLITS[split]:
            both = abs(h.said - h.measured), abs(h.physics - h.measured)
            lost.setdefault(h.block, []).append(both)
    means = np.array([np.mean(rows, axis=0) for rows in lost.values()])
    return bool(len(means)) and bool(means[:, 0].mean() < means[:, 1].mean())


def decided(held: Sequence[Held], split: str) -> list[Held]:
    """With physics alone in each fold for which the other folds say that the process does not
    help: how a choice made on all folds does on data that it was not made on.
    """
    trusted = {f: helps([h for h in held if h.fold != f], split) for f in {h.fold for h in held}}
    return [h if trusted[h.fold] else replace(h, said=h.physics) for h in held]


def width(held: Sequence[Held], split: str) -> Width | None:
    """Half width of the 90 % interval for the split's likeness; None: too few blocks.

    ``held`` is as predicted by the process (not ``decided``).
    """
    process = helps(held, split)
    mine = [h for h in decided(held, split) if h.likeness is SPLITS[split]]
    if len({h.block for h in mine}) < 10:
        return None
    found = group_quantile([abs(h.said - h.measured) for h in mine], [h.block for h in mine])
    return Width(
        log_width=round(min(max(found, 1e-3), math.log(1e3)), 6),
        rows=len(mine),
        groups=len({h.block for h in mine}),
        split=split,
        process=process,
    )


def coverage(held: Sequence[Held], split: str) -> tuple[float, float] | None:
    """Share of rows inside the interval whose width the other folds gave, and its median factor."""
    mine = [h for h in held if h.likeness is SPLITS[split]]
    said = [h for h in decided(held, split) if h.likeness is SPLITS[split]]
    inside, factors = [], []
    for fold in sorted({h.fold for h in mine}):
        found = width([h for h in mine if h.fold != fold], split)
        if found is None:
            return None
        for h in said:
            if h.fold == fold:
                inside.append(abs(h.said - h.measured) <= found.log_width)
                factors.append(math.exp(found.log_width))
    return float(np.mean(inside)), float(np.median(factors))


def _likeness(rest: Table, out: Table) -> list[Likeness]:
    accelerators, frameworks = set(rest.accelerators), set(rest.frameworks)
    pairs = set(zip(rest.accelerators, rest.frameworks, strict=True))
    blocks = set(zip(rest.accelerators, rest.frameworks, rest.ties[:, 2], strict=True))
    found = []
    for a, f, m in zip(out.accelerators, out.frameworks, out.ties[:, 2], strict=True):
        if a not in accelerators or f not in frameworks:
            found.append(Likeness.NEW)
        elif (a, f) not in pairs:
            found.append(Likeness.APART)
        else:
            found.append(Likeness.BLOCK if (a, f, m) in blocks else Likeness.PAIR)
    return found


def is_rate(head: str) -> bool:
    """True where errors are of tokens a second rather than of seconds."""
    return head == OFFLINE
