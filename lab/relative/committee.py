"""A committee: the mean of several families' log times, for when their errors are unlike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.family import Family, Fitted


@dataclass(frozen=True, slots=True)
class Committee:
    """Several families with one vote each."""

    members: Sequence[Family]
    name: str = "committee"

    @property
    def what(self) -> str:
        """One line for a reader."""
        return f"geometric mean of the times of {', '.join(m.name for m in self.members)}"

    @property
    def kinds(self) -> dict[str, str]:
        """Platform -> kind, as the members have it."""
        return {k: v for member in self.members for k, v in getattr(member, "kinds", {}).items()}

    def fit(self, rows: Rows, seed: int) -> CommitteeFitted:
        """Every member on all rows. Raises UsageError for a committee of none."""
        if not self.members:
            raise UsageError("a committee needs members")
        return CommitteeFitted(tuple(member.fit(rows, seed) for member in self.members))


@dataclass(frozen=True, slots=True)
class CommitteeFitted:
    """See ``Committee``."""

    members: tuple[Fitted, ...]

    def log_seconds(self, rows: Rows) -> Floats:
        """Rows x platforms; a time that is known is given back."""
        mean = np.mean([member.log_seconds(rows) for member in self.members], axis=0)
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, mean)
