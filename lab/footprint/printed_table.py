"""The thesis's table 4.5, case by case: memory and profile, beside DIPPM.

Leave-one-model-out: context and share for a model are learnt from the other models' labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.footprint.footprint import footprint
from berth.predictor.footprint.runtimes import FrameworkMemory
from lab.datasets.mig import USABLE_MIB
from lab.footprint.fit_memory import fit_forward
from lab.footprint.memory_labels import MIB, Forward, forwards

PROFILES = ("1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb")
"""Those of equation 4.2."""


@dataclass(frozen=True, slots=True)
class CaseFigures:
    """One case; MiB."""

    model: str
    batch: int
    actual: float | None
    dippm: float | None
    low: float
    mid: float
    high: float
    profile: str | None
    """The smallest that holds the upper end."""
    right_profile: str | None

    @property
    def error(self) -> float | None:
        """``|predicted / actual - 1|``."""
        return None if self.actual is None else abs(self.mid / self.actual - 1)


@dataclass(frozen=True, slots=True)
class PrintedFigures:
    """The table."""

    split: str
    cases: tuple[CaseFigures, ...]
    dippm_error: float
    """Mean ``|predicted / actual - 1|`` of DIPPM as printed (trained on densenets and swins)."""
    dippm_profiles: int
    """Profiles that DIPPM has right."""

    @property
    def profiles_right(self) -> tuple[int, int]:
        """(right, of) of the cases with a profile."""
        asked = [case for case in self.cases if case.right_profile is not None]
        return sum(case.profile == case.right_profile for case in asked), len(asked)

    @property
    def inside(self) -> tuple[int, int]:
        """(within the 95 % interval, of) of the cases with a label."""
        held = [c.low <= c.actual <= c.high for c in self.cases if c.actual is not None]
        return sum(held), len(held)


def smallest(need_mib: float) -> str | None:
    """Return the smallest profile of equation 4.2 with so much usable memory."""
    return next((name for name in PROFILES if need_mib <= USABLE_MIB[name]), None)


def printed_figures(cases: Sequence[Forward] | None = None) -> PrintedFigures:
    """Return all cases. Raises ToolMissing without timm's graphs."""
    cases = forwards() if cases is None else cases
    found = []
    for case in cases:
        others = [other for other in cases if other.printed.model != case.printed.model]
        runtime = FrameworkMemory(
            memory=fit_forward(others), framework="", source="", labels=1, models=1, limits=""
        )
        memory = footprint(case.need, runtime).memory
        low, mid, high = (end / MIB for end in (memory.low, memory.mid, memory.high))
        row = case.printed
        found.append(
            CaseFigures(
                row.model, row.batch, row.actual_mib, row.dippm_mib, low, mid, high,
                smallest(high), row.profile,
            )
        )  # fmt: skip
    rows = [case.printed for case in cases]
    errors = [
        abs(row.dippm_mib / row.actual_mib - 1)
        for row in rows
        if row.dippm_mib is not None and row.actual_mib is not None
    ]
    right = sum(
        row.dippm_mib is not None and smallest(row.dippm_mib) == row.profile
        for row in rows
        if row.profile is not None
    )
    return PrintedFigures("leave-one-model-out", tuple(found), float(np.mean(errors)), right)
