"""Accelerators that nothing was measured on: physics alone, and with a sibling's effects.

Each accelerator with a CUDA sibling in the data is left out in turn; its effects are then those of
the nearest other one, as it is served. ``python -m lab unseen-accelerators``
prints the table; the half widths in ``siblings.py`` are the widest group's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from berth.predictor.families.language_model.physics import HEADS, Floats, combine
from berth.predictor.families.language_model.siblings import sibling
from lab.llm.effects import fit_effects
from lab.llm.table import table

HEADER = ("head", "left out", "sibling", "rows", "physics", "sibling's effects", "90 % factor")


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

    def cells(self) -> tuple[str, ...]:
        """Under ``HEADER``."""
        return (
            self.head, self.accelerator, self.sibling, str(self.rows),
            f"{self.physics_error:.0%}", f"{self.sibling_error:.0%}",
            f"{math.exp(self.log_width):.2f}",
        )  # fmt: skip


def evaluate(advance: Callable[[], None] = lambda: None) -> list[LeftOut]:
    """Every head, every accelerator that has a sibling; effects are fitted without it."""
    found = []
    for head in HEADS:
        rows = table(head)
        names = np.array(rows.accelerators)
        for name in sorted(set(rows.accelerators)):
            others = tuple(sorted(set(rows.accelerators) - {name}))
            own = np.flatnonzero(names == name)
            device = rows.cases[int(own[0])].device
            near = sibling(device, others)
            if near is None:
                continue
            effects = fit_effects(rows.take(np.flatnonzero(names != name)))
            asked = rows.take(own)

            def off(stands_for: str) -> Floats:
                own_effects = np.array([effects.of(stands_for, f) for f in asked.frameworks])  # noqa: B023
                return asked.log_seconds - combine(asked.log_terms, own_effects)[0]  # noqa: B023

            alone, with_sibling = off(""), off(near)
            found.append(
                LeftOut(
                    head, name, near, len(own), _error(alone), _error(with_sibling),
                    float(np.quantile(np.abs(with_sibling), 0.9)),
                )
            )  # fmt: skip
            advance()
    return found


def _error(off: Floats) -> float:
    return float(np.median(np.abs(np.expm1(-off))))
