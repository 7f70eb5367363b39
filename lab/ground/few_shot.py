"""Few-shot curves: figures on something new against how many of its rows were given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lab.ground.figures import Figures, combined


@dataclass(frozen=True, slots=True)
class Point:
    """Figures after so many samples: of draws the mean, the least and the greatest."""

    samples: int
    mean: Figures
    low: Figures
    high: Figures

    def cell(self) -> str:
        """Acc(10 %) with its least and greatest draw, and the mean error."""
        low, high = self.low.within_10, self.high.within_10
        return f"{self.mean.within_10:.0%} ({low:.0%} to {high:.0%}), {self.mean.mean_error:.1%}"


def curve(
    samples: Sequence[int], draws: int, one: Callable[[int, int], Figures]
) -> tuple[Point, ...]:
    """``one(k, draw)`` for each number of samples; without a sample there is one draw."""
    return tuple(
        point(count, [one(count, draw) for draw in range(draws if count else 1)])
        for count in samples
    )


def point(samples: int, drawn: Sequence[Figures]) -> Point:
    """Return the point of the figures of each draw."""
    return Point(samples, combined(drawn), combined(drawn, np.nanmin), combined(drawn, np.nanmax))


def over(points: Sequence[Point]) -> Point:
    """Return the mean over devices, of curves at the same number of samples."""
    return Point(
        points[0].samples, combined([one.mean for one in points]),
        combined([one.low for one in points]), combined([one.high for one in points]),
    )  # fmt: skip
