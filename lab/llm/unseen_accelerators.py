"""Accelerators that nothing was measured on: physics alone, and with a sibling's effects.

Each accelerator with a CUDA sibling in the data is left out in turn; its effects are then those of
the nearest other one, as it is served. ``python -m lab unseen-accelerators``
prints the table; the half widths in ``siblings.py`` are the widest group's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.physics import HEADS, Effects, combine, sibling
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.llm.cases import Cases, table
from lab.llm.effects import fit_effects


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One accelerator; errors are medians of ``|predicted / measured - 1|``."""

    head: str
    accelerator: str
    sibling: str
    rows: int
    physics_error: float
    sibling_error: float
    log_width: float
    """90 % of the rows are within it, with the sibling's effects."""


def left_out() -> list[LeftOut]:
    """Return every head, every accelerator that has a sibling; effects are fitted without it."""
    found = []
    for head in HEADS:
        rows = table(head)
        names = np.array(rows.accelerators)
        for name in np.unique(names).tolist():
            asked, others = rows[names == name], rows[names != name]
            near = sibling(asked.cases[0].device, tuple(sorted(set(others.accelerators))))
            if near is None:
                continue
            effects = fit_effects(others)
            alone, by_sibling = (_missed(asked, effects, of) for of in ("", near))
            width = float(np.quantile(np.abs(by_sibling), 0.9))
            errors = _error(alone), _error(by_sibling)
            found.append(LeftOut(head, name, near, len(asked), *errors, width))
    return found


def _missed(asked: Cases, effects: Effects, accelerator: str) -> Floats:
    """Return log seconds that physics with the effects of ``accelerator`` misses."""
    own = np.array([effects.of(accelerator, framework) for framework in asked.frameworks])
    return np.asarray(asked.log_seconds - combine(asked.log_terms, own)[0])


def _error(off: Floats) -> float:
    return float(np.median(np.abs(np.expm1(-off))))


_HEADER = ("head", "left out", "sibling", "rows", "physics", "sibling's effects", "90 % factor")


def evaluate(_: Options) -> Report:
    """Return each accelerator with a CUDA sibling left out: physics alone, and the sibling's
    effects."""
    found = left_out()
    rows = [
        (one.head, one.accelerator, one.sibling, str(one.rows), f"{one.physics_error:.0%}",
         f"{one.sibling_error:.0%}", f"{math.exp(one.log_width):.2f}")
        for one in found
    ]  # fmt: skip
    return Report(
        "Language models on accelerators never measured",
        ("Split: one accelerator left out after the other.",),
        (Section("Median error of the time", _HEADER, rows),),
        {"left_out": found},
    )
