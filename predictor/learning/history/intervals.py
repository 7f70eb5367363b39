"""Online adjustment of the width of run-time intervals to 90 % coverage, and which predictions to
trust.

At each of ten levels an interval is the shortest one that contains a share of the weights, plus a
margin on both sides. The level in use is a site-wide term plus a term of the user. Each ended job
raises both terms where the interval at the present level would have missed the job's time, and
lowers them where the interval would have contained it (quantile tracking; Gibbs and Candes 2021),
so that in the long run 90 % of intervals contain the time. The present level is compared, not the
level at the time of the prediction: a thousand jobs predicted together move the level no further
than needed. As jobs come in such blocks, the target miss share is itself moved by the misses of the
intervals that were given out.

The weights alone overstate the accuracy for users with few ended jobs. So predictions are put into
cells by the accuracy that the weights imply and by the number of ended jobs of the user; each cell
remembers the accuracy that was reached. A prediction is trusted unless it is among the least
accurate share (``DISTRUSTED``) of recent predictions.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Hashable

import numpy as np

from berth.predictor.learning.history.evidence import WeightedRuns
from berth.predictor.learning.history.rings import Floats

MISSES = 0.1
"""Share of jobs whose run time may lie outside the 90 % interval."""
SHARES: Floats = np.array([0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.995, 1.0, 1.0, 1.0])[:, None]
"""[levels, 1] share of the weights that the interval of each level contains."""
MARGINS: Floats = np.array([0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.4, 0.8, 1.6, 4.0])
"""[levels] added on both sides of the interval, in natural log of time."""
_HIGHEST = len(MARGINS) - 1.0
_BEGIN = 4.0
"""Level of a site before any job has ended."""
_SITE_STEP = 0.02
_USER_STEP = 0.1
_USERS = 20_000
_SHARE_BEGIN, _SHARE_STEP = 0.04, 0.0003
"""Target miss share before any job has ended; the step by which each job moves the share."""
_SHARE_BOUNDS = (-0.3, 0.15)
"""Least and largest target miss share; negative: a block of misses is made up for later.

The share in use is at least ``_SHARE_USED``.
"""
_SHARE_USED = 0.002


class Nested:
    """Intervals of one predicted run time at ten levels of width; each contains the interval of the
    level below."""

    __slots__ = ("_highs", "_lows")

    def __init__(self, evidence: WeightedRuns, mid: float) -> None:
        logs, weights = evidence.log_runs, evidence.weights
        reached = np.cumsum(weights)
        before = reached - weights
        total = reached[-1]
        targets = before + SHARES * total
        last = np.searchsorted(reached, np.minimum(targets, total) - 1e-12)
        np.minimum(last, len(logs) - 1, out=last)
        widths = logs[last] - logs
        # An interval that starts too late to hold its share is excluded; the first never is.
        widths[targets > total + 1e-9] = np.inf
        widths[:, 0] = logs[last[:, 0]] - logs[0]
        first = widths.argmin(axis=1)
        ends = last[np.arange(len(first)), first]
        self._lows: Floats = np.minimum(np.minimum.accumulate(logs[first] - MARGINS), mid)
        self._highs: Floats = np.maximum(np.maximum.accumulate(logs[ends] + MARGINS), mid)

    def at(self, level: float) -> tuple[float, float]:
        """Return the lower and upper end, in natural log of seconds, of the interval at width
        ``level``.

        Between two integer levels the ends are interpolated.
        """
        below = min(int(level), len(MARGINS) - 2)
        part = level - below
        low = self._lows[below] * (1 - part) + self._lows[below + 1] * part
        high = self._highs[below] * (1 - part) + self._highs[below + 1] * part
        return float(low), float(high)

    def level_of(self, log_run: float) -> float:
        """Return the lowest level of width whose interval contains the log run time ``log_run``.

        A value above the highest level: no interval contains it.
        """
        inside = (self._lows <= log_run) & (log_run <= self._highs)
        place = int(inside.argmax())
        if not inside[place]:
            return _HIGHEST + 1.0
        if place == 0:
            return 0.0
        outer, inner = (
            (self._lows[place], self._lows[place - 1])
            if log_run < self._lows[place - 1]
            else (self._highs[place], self._highs[place - 1])
        )
        return place - 1 + float((log_run - inner) / (outer - inner)) if outer != inner else place


class Levels:
    """The interval width (as a level) of each user, adjusted as jobs end."""

    def __init__(self) -> None:
        self._site = _BEGIN
        self._users: OrderedDict[Hashable, float] = OrderedDict()
        self._share = _SHARE_BEGIN

    def of(self, user: Hashable) -> float:
        """Return the present width level of a user's intervals, from 0 to the highest level."""
        return min(max(self._site + self._users.get(user, 0.0), 0.0), _HIGHEST)

    def learn(self, user: Hashable, level: float, *, missed: bool) -> None:
        """Widen or narrow later intervals after a job of the user ended.

        ``level``: level whose interval would just have contained the job's time; ``missed``:
        whether the interval that was predicted did not contain it.
        """
        self._share += _SHARE_STEP * (MISSES - missed)
        self._share = min(max(self._share, _SHARE_BOUNDS[0]), _SHARE_BOUNDS[1])
        step = (1.0 if level > self.of(user) else 0.0) - max(self._share, _SHARE_USED)
        self._site = min(max(self._site + _SITE_STEP * step, 0.0), _HIGHEST)
        moved = self._users.pop(user, 0.0) + _USER_STEP * step
        self._users[user] = min(max(moved, -_HIGHEST), _HIGHEST)
        if len(self._users) > _USERS:
            self._users.popitem(last=False)


DISTRUSTED = 0.05
"""Share of predictions that are not acted on: the least accurate."""
_EXPECTED_CELLS = 20
_COUNT_CELLS = 8
_CELL_PRIOR = 20.0
"""Number of predictions that a cell's initial accuracy counts as."""
_RECENT = 4_000
"""Number of recent predictions that a new prediction is compared with."""
_RENEWED = 100
"""Number of predictions after which the accuracy threshold is computed again."""
_FIRST = 100
"""Number of predictions before which all are trusted."""


class Confidence:
    """Accuracy reached by past predictions, by cell, and the accuracy below which predictions are
    not trusted."""

    def __init__(self) -> None:
        expected = (np.arange(_EXPECTED_CELLS) + 0.5) / _EXPECTED_CELLS
        # As on the trace that the weights were fitted on: overconfident, most after few jobs.
        known = 1.0 - 0.5 ** (1.0 + np.arange(_COUNT_CELLS))
        self._count = np.full((_EXPECTED_CELLS, _COUNT_CELLS), _CELL_PRIOR)
        self._sum = _CELL_PRIOR * 0.8 * np.outer(expected, known)
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._least = 0.0
        self._asked = 0

    def of(self, expected: float, runs: int) -> float:
        """Return the accuracy to expect, from past predictions with a similar implied accuracy and
        number of ended jobs.

        ``expected``: accuracy that the weights of past jobs imply; ``runs``: ended jobs of the
        user.
        """
        cell = _cell(expected, runs)
        return float(self._sum[cell] / self._count[cell])

    def learn(self, expected: float, runs: int, accuracy: float) -> None:
        """Record the accuracy that a prediction reached, for later predictions with similar
        ``expected`` and ``runs``."""
        cell = _cell(expected, runs)
        self._count[cell] += 1.0
        self._sum[cell] += accuracy

    def seen(self, accuracy: float) -> None:
        """Record the expected accuracy of one more prediction, for the threshold of ``trusts``."""
        self._recent.append(accuracy)
        self._asked += 1
        if self._asked % _RENEWED == 0 and len(self._recent) >= _FIRST:
            self._least = float(np.quantile(np.fromiter(self._recent, float), DISTRUSTED))

    def trusts(self, accuracy: float) -> bool:
        """Return whether a prediction of this accuracy is not among the least accurate recent
        predictions."""
        return accuracy >= self._least


def _cell(expected: float, runs: int) -> tuple[int, int]:
    """Return the indices of the accuracy table for an expected accuracy and a number of ended jobs
    of the user."""
    return (
        min(int(expected * _EXPECTED_CELLS), _EXPECTED_CELLS - 1),
        min(int(math.log2(1 + runs)), _COUNT_CELLS - 1),
    )
