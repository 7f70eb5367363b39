"""Records: rows of numbers at places of a call tree, as Caliper and Hatchet keep them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Record:
    """One row: where in the tree, its numbers and its labels by column."""

    path: tuple[str, ...]
    numbers: dict[str, float]
    labels: dict[str, str]
    line: int
    """Of the file, or the index of the row."""


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one run and what the file says of the run as a whole."""

    records: list[Record]
    facts: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    """Column -> its unit, where the file says it."""
    aliases: Mapping[str, str] = field(default_factory=dict)


def number(value: str | float) -> float | None:
    """A finite number, or None where it is none."""
    if isinstance(value, bool):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None
