"""Widths of the intervals of language models, and their coverage, from cases that were left out."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.core.bundle import LogWidth
from berth.predictor.core.intervals import group_quantile
from berth.predictor.families.language_model.bundle import Widths, verify
from berth.predictor.families.language_model.situation import Situation
from lab.ground.table import Flags
from lab.llm.situations import (
    ACCELERATORS,
    BLOCKS,
    FRAMEWORK,
    FRAMEWORKS,
    LOADS,
    MODELS,
    RELATIVE,
    ROWS,
    Held,
)

MEASURED_BY = {
    Situation.BLOCK: ROWS,
    Situation.PAIR: BLOCKS,
    Situation.MODEL: MODELS,
    Situation.UNLIKE: MODELS,
}
"""The split whose held-out rows measure the width in each situation."""
FEWEST_BLOCKS = 10
_ZERO = LogWidth(log_width=0, rows=1, groups=1, split="none")
NOTHING = Widths(situations={}, lengths=_ZERO, sequences=_ZERO, relative=_ZERO)
"""Widths where nothing was calibrated yet."""


def calibrated(held: Mapping[str, Held], known: Widths = NOTHING) -> Widths:
    """Return the widths from the held-out rows of each split; ``known``: those that these splits do
    not measure.

    The width of each situation is measured on rows with loads inside the measured range; beside
    it, what loads outside of that range need; then what servers and devices that were not measured
    need.
    """
    situations = dict(known.situations)
    for situation, split in MEASURED_BY.items():
        if split in held:
            own = held[split].situation == situation.value
            inside = np.array([each.is_inside for each in held[split].similarity])
            if measured := _width(held[split], split, own & inside):
                situations[situation] = measured
    parts = {**dict(known), "situations": in_order(situations)}
    for part, split in (("lengths", LOADS), ("sequences", LOADS), (FRAMEWORK, FRAMEWORKS),
                        (RELATIVE, ACCELERATORS)):  # fmt: skip
        if split not in held:
            continue
        rows = held[split]
        if part in {RELATIVE, FRAMEWORK}:
            own, distance = rows.situation == part, np.ones(len(rows))
        else:
            own, distance = rows.situation != RELATIVE, rows.distance(part)
        if part == "lengths":
            own &= rows.distance("sequences") == 0
        base = Widths(**{**parts, part: _ZERO})
        chosen = own & (distance > 0) & has_relative(rows)
        measured = _width(rows, split, chosen, base, np.sqrt(np.maximum(distance, 1e-9)))
        parts[part] = measured or parts[part]
    return Widths(**parts)


def in_order(situations: Mapping[Situation, LogWidth]) -> dict[Situation, LogWidth]:
    """Return widths of which none is narrower than that of a more similar situation: neighbours in
    the wrong order get their mean, weighted by blocks (pool adjacent violators)."""
    pools: list[list[Situation]] = []

    def mean(pool: list[Situation]) -> float:
        groups = [situations[each].groups or 1 for each in pool]
        return float(np.average([situations[each].log_width for each in pool], weights=groups))

    for situation in (each for each in Situation if each in situations):
        pools.append([situation])
        while len(pools) > 1 and mean(pools[-2]) > mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return {
        each: situations[each].model_copy(update={"log_width": round(mean(pool), 6)})
        for pool in pools
        for each in pool
    }


def has_relative(held: Held) -> Flags:
    """Return which rows have measurements of their framework on the device or a relative."""
    return np.array([each.situation is not Situation.APART for each in held.similarity])


def _width(
    held: Held,
    split: str,
    rows: Flags,
    widths: Widths | None = None,
    distance: Floats | float = 1.0,
) -> LogWidth | None:
    """Return the width that 90 % of the rows need, per unit of ``distance`` and beside what
    ``widths`` give; None: too few blocks."""
    blocks = held.block[rows].tolist()
    if len(set(blocks)) < FEWEST_BLOCKS:
        return None
    off = np.abs(held.process - held.measured)
    base = np.zeros(len(held)) if widths is None else log_widths(widths, held)
    needed = np.sqrt(np.maximum(off**2 - base**2, 0.0)) / distance
    quantile = group_quantile(needed[rows].tolist(), blocks)
    return LogWidth(
        log_width=round(min(quantile, math.log(1e3)), 6),
        rows=len(blocks),
        groups=len(set(blocks)),
        split=split,
    )


def log_widths(widths: Widths, held: Held) -> Floats:
    """Return the half width in log time of each row's interval, [rows]."""
    return np.array([widths.log_width(each) for each in held.similarity])


def shipped_widths() -> dict[str, Widths]:
    """Return the widths of each head in the shipped bundle."""
    return {entry.head: entry.widths for entry in verify().heads}


def nested_log_widths(held: Held, split: str, known: Widths) -> Floats:
    """Return the half width in log time of each row's interval, [rows], where the split's part of
    it is measured on the other folds and the rest is ``known``."""
    widths = np.empty(len(held))
    for fold in np.unique(held.fold):
        own = held.fold == fold
        widths[own] = log_widths(calibrated({split: held[~own]}, known), held[own])
    return widths


def coverage(held: Held, widths: Floats, rows: Flags | bool = True) -> tuple[float, float] | None:
    """Return the share of ``rows`` inside intervals of these half widths in log time, and their
    median factor, where the framework was measured on a relative; None: no such rows."""
    chosen = has_relative(held) & rows
    if not chosen.any():
        return None
    off = np.abs(held.process - held.measured)
    inside = (off <= widths)[chosen].mean()
    return float(inside), float(np.exp(np.median(widths[chosen])))
