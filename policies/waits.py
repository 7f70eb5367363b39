"""Waits in a queue, by a job's size and length: a table made beside the submit path.

A look-ahead simulation of the queue fills it (``policies.replay.live``); the submit path only looks
it up.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from berth.predictor.core.prediction import Interval


class Waits(Protocol):
    """The waits of jobs in a queue."""

    def at(self, units: int, runtime_s: float) -> Interval:
        """Return the wait of a job of so many cores or GPUs that is predicted to run so long."""
        ...


@dataclass(frozen=True, slots=True)
class WaitTable:
    """Predicted waits in seconds by class of job: so many cores or GPUs, for so long.

    ``waits`` has one row for each of ``units`` and one column for each of ``seconds``. Raises
    ValueError where the shape is another or the bounds do not ascend.
    """

    units: tuple[int, ...]
    """Upper bounds of the classes of size, ascending: GPUs at candidates with GPUs, else cores.
    Larger jobs count as of the last class."""
    seconds: tuple[float, ...]
    """Upper bounds of the classes of predicted time, ascending; longer jobs as of the last."""
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
        """Read what ``to_dict`` made. Raises LookupError, TypeError, ValueError."""
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
        """Return the table as JSON has it: an infinite bound is null."""
        return {
            "units": list(self.units),
            "seconds": [None if math.isinf(bound) else bound for bound in self.seconds],
            "waits": [
                [[interval.low, interval.mid, interval.high] for interval in row]
                for row in self.waits
            ],
        }

    def at(self, units: int, runtime_s: float) -> Interval:
        """Return the wait of a job of so many cores or GPUs that is predicted to run so long."""
        row = min(bisect_left(self.units, units), len(self.units) - 1)
        column = min(bisect_left(self.seconds, runtime_s), len(self.seconds) - 1)
        return self.waits[row][column]
