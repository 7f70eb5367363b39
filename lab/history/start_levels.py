"""Levels of the intervals of starts, from the starts that are known so far.

Conformal (Vovk, Gammerman and Shafer 2005): at each end the level that most scores of earlier
forecasts keep to. Forecasts of late count more, and those with as many jobs ahead. A job that still
waits is counted as soon as its start has missed the interval, or cannot miss it any more at the
lower end: else only short waits would be known.
"""

from __future__ import annotations

import numpy as np

from berth.policies.replay.live import FLOOR_S, Levels
from berth.policies.replay.trace import Floats

ONE_SIDE = 0.93
"""Of the scores keep to the level. Intervals hold their middle whatever the levels are, so that
more of them are right."""
HALF_LIFE = 20.0
"""Moments at which forecasts were made, after which they count half as much."""
PRIOR = 2.0
"""Forecasts that the first levels count for."""
_FEW_AHEAD = 5.0
AS_SHIPPED = Levels()


class ConformalLevels:
    """Its constants were chosen on RICC's jobs 50,000 to 70,000."""

    def __init__(self, first: Levels = AS_SHIPPED) -> None:
        self._first = first
        self._moments: list[float] = []
        self._rows: list[list[float]] = []
        """Moment's number, made at, low, high, jobs ahead, wait."""

    def made(self, now_s: float, low_s: float, high_s: float, ahead: int) -> int:
        """A forecast as drawn, in seconds from now; its number."""
        if not self._moments or self._moments[-1] != now_s:
            self._moments.append(now_s)
        low, high = (max(one, 0.0) + FLOOR_S for one in (low_s, high_s))
        self._rows.append([len(self._moments), now_s, low, high, ahead, np.inf])
        return len(self._rows) - 1

    def started(self, number: int, wait_s: float) -> None:
        """The job of a forecast started so long after it."""
        self._rows[number][-1] = max(wait_s, 0.0) + FLOOR_S

    def at(self, now_s: float, ahead: int) -> Levels:
        """For an interval that is drawn now, with so many jobs ahead."""
        if not self._rows:
            return self._first
        moment, made, low, high, jobs, wait = np.array(self._rows).T
        age = len(self._moments) - moment + (self._moments[-1] < now_s)
        apart = np.abs(np.log((jobs + _FEW_AHEAD) / (ahead + _FEW_AHEAD)))
        weight = 0.5 ** (age / HALF_LIFE) * np.exp(-apart)
        known = np.isfinite(wait)
        least = np.where(known, wait, np.maximum(now_s - made, 0.0) + FLOOR_S)
        earlier, later = np.log(low / least), np.log(least / high)
        kept, missed = known | (earlier < 0), known | (later > 0)
        return Levels(
            _level(earlier[kept], weight[kept], self._first.earlier),
            _level(later[missed], weight[missed], self._first.later),
        )


def _level(scores: Floats, weights: Floats, first: float) -> float:
    """The weighted quantile, with the first level among the scores."""
    scores, weights = np.append(scores, np.log(first)), np.append(weights, PRIOR)
    order = np.argsort(scores)
    below = np.cumsum(weights[order])
    at = min(int(np.searchsorted(below, ONE_SIDE * below[-1])), len(scores) - 1)
    return float(np.exp(scores[order[at]]))
