"""Serving of language models: held-out rows, models and accelerators; the shipped method alone.

Of tokens a second two of the five folds of random rows are computed, of the rest every fold.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berth.predictor.families.language_model.physics import OFFLINE, TPOT, TTFT
from lab.gate.part import Work
from lab.llm.held_out import (
    ACCELERATORS,
    BLOCKS,
    ROWS,
    Held,
    coverage,
    decided,
    is_rate,
    left_out,
    parts,
)
from lab.llm.table import table

HEADS = {"throughput": OFFLINE, "first-token": TTFT, "each-token": TPOT}
SPLITS = {"rows": ROWS, "blocks": BLOCKS, "accelerators": ACCELERATORS}
FEWER = {("throughput", "rows"): 2}
COVERED = (("throughput", "blocks"), ("throughput", "accelerators"))


def figures(work: Work) -> dict[str, float]:
    """Median and mean errors by quantity and split; coverage of tokens a second."""
    made: dict[str, float] = {}
    for name, head in HEADS.items():
        for short, split in SPLITS.items():
            held: list[Held] = []
            folds = parts(table(head), split, work.seed)[: FEWER.get((name, short))]
            for fold, part in enumerate(folds):
                held += left_out(table(head), part, fold, work.seed)
                work.advance()
            made |= _errors(head, decided(held, split), f"{name}.{short}")
            if (name, short) in COVERED:
                inside = coverage(held, split)
                made[f"{name}.{short}.coverage"] = float("nan") if inside is None else inside[0]
    return made


def _errors(head: str, held: Sequence[Held], name: str) -> dict[str, float]:
    """Of tokens a second where the head is a rate, else of seconds."""
    sign = -1.0 if is_rate(head) else 1.0
    off = np.array([sign * (one.said - one.measured) for one in held])
    errors = np.abs(np.expm1(off))
    return {f"{name}.median": float(np.median(errors)), f"{name}.mean": float(errors.mean())}
