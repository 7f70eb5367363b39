"""How much memory to ask for, from the peaks of tasks that have ended.

The peak of a task's next run is predicted as a Student's t in log bytes: from its own past peaks,
or from what another task of the same sample held or took, where that was more accurate so far. The
size that costs least is chosen: what is asked for and not used, against an attempt that fails and
is repeated with the preset, weighed by ``caution``. A task's first runs are sized by how much of
their presets other tasks needed, once enough are known.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from berth.predictor.learning.history.rings import Floats

LEAST_RUNS = 1
"""Ended runs before a task is sized by them."""
_TASKS = 20_000
_SAMPLES = 5_000
_PAIRS = 200_000
_QUANTILES = 40
_PRIOR_RUNS = 2.0
_LEAST_SPREAD = 0.03
_FIRST_SPREAD = 0.3
"""Least spread of the share of its preset that a task needs."""
_FIRST_TASKS = 10
"""Other tasks known before a first run is sized by them."""
_FIRST_STARTED = 30
"""Runs of a task started before one has ended, after which the preset is taken."""
_BETTER = 0.9
"""Another task of the sample counts where its spread is smaller than this times the own one."""
_LEAST_PAIRS = 4
_RIDGE = 0.02


@dataclass(frozen=True, slots=True)
class Sizing:
    """How sizes are chosen."""

    caution: float = 4.6
    """What an undersized attempt counts, in its own waste."""
    first_caution: float = 4.0
    """The same for a task of which no run has ended."""
    spread: float = 0.2
    """Standard deviation of log peaks that a task is thought to have before it shows."""
    least_runs: int = LEAST_RUNS
    size_first: bool = True
    over_largest: float = 0.0
    """Never below the largest peak seen times this."""


CAREFUL = Sizing(caution=30.0, least_runs=5, size_first=False, over_largest=1.05)
"""For requests that are edited: few undersized attempts, more waste."""


@dataclass
class _Sums:
    """Of (x, y) pairs: enough for a line through them."""

    count: int = 0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0

    def add(self, x: float, y: float) -> None:
        """One more pair."""
        self.count += 1
        self.x += x
        self.y += y
        self.xx += x * x
        self.xy += x * y
        self.yy += y * y


@dataclass(frozen=True, slots=True)
class _Guess:
    """A Student's t in log bytes."""

    mid: float
    spread: float
    degrees: float


class PeakPredictor:
    """Learns of runs in order of their ends; bounded in memory."""

    def __init__(self, sizing: Sizing | None = None) -> None:
        self._how = sizing or Sizing()
        self._own: OrderedDict[str, _Sums] = OrderedDict()
        self._largest: dict[str, float] = {}
        self._started: OrderedDict[str, int] = OrderedDict()
        self._shares: list[float] = []
        self._samples: OrderedDict[str, dict[str, tuple[float, float]]] = OrderedDict()
        self._pairs: OrderedDict[tuple[str, str, int], _Sums] = OrderedDict()

    def ended(
        self, task: str, peak_bytes: float, preset_bytes: float, *, sample: str, runtime_s: float
    ) -> None:
        """A run of ``task`` on ``sample`` held ``peak_bytes``; unknown peaks are left out."""
        if not (0 < peak_bytes < math.inf and preset_bytes > 0):
            return
        peak, seconds = math.log(peak_bytes), math.log(max(runtime_s, 1e-3))
        own = self._own.setdefault(task, _Sums())
        self._own.move_to_end(task)
        if own.count == 0 and len(self._shares) < _TASKS:
            self._shares.append(peak - math.log(preset_bytes))
        own.add(peak, peak)
        self._largest[task] = max(self._largest.get(task, -math.inf), peak)
        if sample:
            others = self._samples.setdefault(sample, {})
            self._samples.move_to_end(sample)
            for other, values in others.items():
                if other != task:
                    for which, x in enumerate(values):
                        self._pairs.setdefault((task, other, which), _Sums()).add(x, peak)
            others[task] = (peak, seconds)
        self._forget()

    def size(self, task: str, preset_bytes: float, *, sample: str = "") -> float:
        """Bytes to ask for; the preset where nothing better is known."""
        own, how = self._own.get(task), self._how
        if own is None:
            started = self._started.get(task, 0)
            self._started[task] = started + 1
            known = len(self._shares)
            if not how.size_first or known < _FIRST_TASKS or started >= _FIRST_STARTED:
                return preset_bytes
            shares = np.array(self._shares)
            spread = max(float(shares.std(ddof=1)), _FIRST_SPREAD) * math.sqrt(1 + 1 / known)
            middle = float(shares.mean()) + math.log(preset_bytes)
            first = _Guess(middle, spread, known - 1.0)
            return min(_cheapest(first, preset_bytes, how.first_caution), preset_bytes)
        if own.count < how.least_runs:
            return preset_bytes
        best = self._of_own(own)
        for other, values in self._samples.get(sample, {}).items():
            for which, x in enumerate(values):
                pairs = self._pairs.get((task, other, which))
                guess = None if pairs is None else self._by_other(pairs, x)
                if guess is not None and guess.spread < _BETTER * best.spread:
                    best = guess
        largest = math.exp(self._largest[task])
        found = min(_cheapest(best, preset_bytes, how.caution), max(preset_bytes, 1.1 * largest))
        return max(found, how.over_largest * largest)

    def _of_own(self, own: _Sums) -> _Guess:
        mean = own.y / own.count
        squares = max(own.yy - own.count * mean * mean, 0.0)
        degrees = _PRIOR_RUNS + own.count - 1.0
        variance = (_PRIOR_RUNS * self._how.spread**2 + squares) / degrees
        spread = math.sqrt(max(variance, _LEAST_SPREAD**2) * (1 + 1 / own.count))
        return _Guess(mean, spread, degrees)

    def _by_other(self, pairs: _Sums, x: float) -> _Guess | None:
        n = pairs.count
        mean_x, mean_y = pairs.x / n, pairs.y / n
        var_x = pairs.xx - n * mean_x * mean_x
        if n < _LEAST_PAIRS or var_x < 1e-6:
            return None
        both = pairs.xy - n * mean_x * mean_y
        slope = both / (var_x + _RIDGE)
        squares = max(
            pairs.yy - n * mean_y * mean_y - 2 * slope * both + slope * slope * var_x, 0.0
        )
        degrees = _PRIOR_RUNS + n - 2.0
        variance = (_PRIOR_RUNS * self._how.spread**2 / 2 + squares) / degrees
        away = 1 + 1 / n + (x - mean_x) ** 2 / (var_x + _RIDGE)
        spread = math.sqrt(max(variance, _LEAST_SPREAD**2) * away)
        return _Guess(mean_y + slope * (x - mean_x), spread, degrees)

    def _forget(self) -> None:
        if len(self._own) > _TASKS:
            task, _ = self._own.popitem(last=False)
            self._largest.pop(task, None)
        if len(self._started) > _TASKS:
            self._started.popitem(last=False)
        if len(self._samples) > _SAMPLES:
            self._samples.popitem(last=False)
        while len(self._pairs) > _PAIRS:
            self._pairs.popitem(last=False)


def _cheapest(guess: _Guess, preset_bytes: float, caution: float) -> float:
    """The quantile with the least expected waste: over-asking, or a failed attempt and the
    preset."""
    peaks = np.exp(guess.mid + guess.spread * _quantiles(guess.degrees))
    again = np.maximum(preset_bytes, peaks) - peaks
    held = np.cumsum(_WEIGHTS)
    over = peaks * held - np.cumsum(_WEIGHTS * peaks)
    left = _WEIGHTS * again
    repeated = np.cumsum(left[::-1])[::-1] - left
    cost = over + caution * (peaks * (1.0 - held) + repeated)
    return float(peaks[int(cost.argmin())])


def _weights() -> Floats:
    found = np.full(_QUANTILES + 3, 1.0 / _QUANTILES)
    found[-4] -= 0.015
    found[-3:] = 0.006, 0.006, 0.003
    return found


_SHARES: Floats = np.r_[(np.arange(_QUANTILES) + 0.5) / _QUANTILES, 0.99, 0.995, 0.999]
_WEIGHTS: Floats = _weights()


_NORMAL: Floats = np.array([NormalDist().inv_cdf(share) for share in _SHARES])


def _quantiles(degrees: float) -> Floats:
    """Of Student's t, from the normal ones (Hill, "Algorithm 396", 1970: the inverse of his
    transformation); within 5 % from 3 degrees on up to the 99 % quantile, too large below."""
    n = max(degrees, 1.0)
    z2 = _NORMAL**2
    found: Floats = np.sign(_NORMAL) * np.sqrt(n * np.expm1(z2 * (n - 5 / 6) / (n - 2 / 3) ** 2))
    return found
