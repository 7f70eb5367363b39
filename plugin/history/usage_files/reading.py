"""The result of reading what monitoring recorded: usages of jobs, and what was left out."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from berth.pilot.usage.record import Usage
from berth.plugin.scheduler.past_jobs import MOST_EXAMPLES, SHOWN, unreadable

IMPOSSIBLE_SHARE = "jobs have a recorded utilisation below 0 or above 100 %: it does not count"
IMPOSSIBLE_AMOUNT = "jobs have a recorded amount that cannot be, such as less than 0: not counted"
SHARES = ("gpu_utilisation", "gpu_memory_utilisation")
WHOLE = ("peak_bytes", "disk_read_bytes", "disk_written_bytes", "gpu_peak_bytes", "gpus")
AMOUNTS = ("cpu_time_s", *WHOLE)
ROUNDING = 1.005
"""Largest share that is taken for 1: percentages are rounded."""
_MOST = 2**60


@dataclass
class ReadUsages:
    """The usages read, and counts of what was left out."""

    usages: list[Usage] = field(default_factory=list)
    nothing_recorded: int = 0
    """Number of jobs for which the source says that it recorded nothing, such as ``JS1:Short``."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of jobs by what was left out of their record, as the end of a sentence."""
    broken: int = 0
    examples: list[str] = field(default_factory=list)
    """Descriptions of the first broken records: place, reason, text."""

    def refuse(self, place: object, text: object, why: object) -> None:
        """Count a broken record and keep the first few as examples."""
        self.broken += 1
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(f"{place}: {why}: {str(text)[:SHOWN]!r}")

    def add(self, usage: Usage) -> None:
        """Add a job's usage without the values that cannot be, which are counted."""
        values: dict[str, Any] = {}
        for name in SHARES:
            share = getattr(usage, name)
            if share is not None and not 0 <= share <= ROUNDING:  # also true for NaN
                values[name] = None
                self.left_out[IMPOSSIBLE_SHARE] += 1
            elif share is not None:
                values[name] = min(float(share), 1.0)
        for name in AMOUNTS:
            amount = getattr(usage, name)
            if amount is not None and not (math.isfinite(amount) and 0 <= amount < _MOST):
                values[name] = None
                self.left_out[IMPOSSIBLE_AMOUNT] += 1
            elif amount is not None and name in WHOLE:
                values[name] = int(amount)
        self.usages.append(replace(usage, **values))


def summary(read: ReadUsages) -> list[str]:
    """Return the results as lines for the user: what was left out, and why."""
    lines = [f"{count} {why}" for why, count in read.left_out.items()]
    if read.nothing_recorded:
        lines.append(f"of {read.nothing_recorded} jobs the source recorded nothing (too short)")
    return [*lines, *unreadable("records", read.broken, read.examples)]


def number(value: object) -> float | None:
    """Return a number from JSON; None: it is none, such as null or ``N/A``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf
