"""Predicted queue waits by job size and run time, as a table.

A look-ahead simulation of the queue computes the table (``policies.replay.live``) in the
background; the submit path only looks up an entry.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from berth.predictor.core.prediction import Interval


class Waits(Protocol):
    """Predicted waits of jobs in a queue."""

    def at(self, units: int, runtime_s: float) -> Interval:
        """Return the predicted wait in seconds of a job with ``units`` cores or GPUs and this
        run time.
        """
        ...


@dataclass(frozen=True, slots=True)
class WaitTable:
    """Predicted waits in seconds, by classes of job size and run time.

    ``waits`` has one row per entry of ``units`` and one column per entry of ``seconds``. Raises
    ValueError where the shape differs or the class bounds do not ascend.
    """

    units: tuple[int, ...]
    """Upper bounds of the size classes, ascending: GPUs on GPU candidates, else cores.

    Larger jobs use the last class.
    """
    seconds: tuple[float, ...]
    """Upper bounds of the classes of predicted run time in seconds, ascending.

    Longer jobs use the last class.
    """
    waits: tuple[tuple[Interval, ...], ...]

    def __post_init__(self) -> None:
        for bounds in (self.units, self.seconds):
            if not bounds or list(bounds) != sorted(set(bounds)):
                raise ValueError(f"bounds of classes must ascend: {bounds}")
        if len(self.waits) != len(self.units):
            raise ValueError(f"{len(self.waits)} rows of waits for {len(self.units)} sizes")
        if any(len(row) != len(self.seconds) for row in self.waits):
            raise ValueError(f"a row of waits must have {len(self.seconds)} columns")

    @classmethod
    def of_dict(cls, document: Mapping[str, Any]) -> WaitTable:
        """Return the table that ``to_dict`` wrote. Raises LookupError, TypeError or ValueError."""
        seconds = (math.inf if bound is None else float(bound) for bound in document["seconds"])
        return cls(
            tuple(int(bound) for bound in document["units"]),
            tuple(seconds),
            tuple(
                tuple(Interval(*map(float, interval)) for interval in row)
                for row in document["waits"]
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON values; an infinite bound becomes null."""
        return {
            "units": list(self.units),
            "seconds": [None if math.isinf(bound) else bound for bound in self.seconds],
            "waits": [
                [[interval.low, interval.mid, interval.high] for interval in row]
                for row in self.waits
            ],
        }

    def at(self, units: int, runtime_s: float) -> Interval:
        """Return the predicted wait in seconds of a job with ``units`` cores or GPUs and this
        run time.
        """
        row = min(bisect_left(self.units, units), len(self.units) - 1)
        column = min(bisect_left(self.seconds, runtime_s), len(self.seconds) - 1)
        return self.waits[row][column]
