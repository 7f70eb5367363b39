"""What surprises tell: whether something has changed, and how wide intervals must be.

A surprise is a finished job's log time less what was expected from all jobs before it, in
standard deviations. CUSUM (Page, "Continuous inspection schemes", 1954) adds up what is over half
a deviation, upwards and downwards; surprises are cut off at three, so that one odd job is no
change. Adaptive conformal inference (Gibbs and Candes, "Adaptive conformal inference under
distribution shift", 2021; here the width itself is moved, as by Angelopoulos, Candes and
Tibshirani, "Conformal PID control for time series prediction", 2023) widens intervals after each
miss and narrows them after each hit, so that in the long run nine in ten hold whatever happens.

A posterior's deviations are right for the data that its variances were fitted on; at another site
first runs may be further off than stated and later ones nearer, or the other way round. So each
program's surprises are counted by how many runs it had before, and another program's intervals get
the factor at which nine in ten of these would have held. Programs weigh the same, whatever their
number of jobs; the factors that ship count as ``PRIOR_PROGRAMS`` of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import LEVEL, NORMAL_90
from berth.predictor.learning.cells import PHASES, Components, phase

ALLOWANCE = 0.5
"""Part of a surprise that is not added up."""
LIMIT = 8.0
"""Sum at which something has changed: four jobs of 3 deviations, 16 of one."""
CUT = 3.0
"""Larger surprises count as this."""
STEP = 0.15
"""The log of the factor goes up by 0.9 of it after a miss, down by a tenth of it after a hit."""
_LEAST, _MOST = 0.6, 20.0
WINDOW = 20
"""Jobs over which intervals are said to hold or to fail."""
FEWEST = 10
_Z = 1.96


@dataclass(frozen=True, slots=True)
class Change:
    """Something is not as it was."""

    first: int
    """Index of the first surprise of the excursion: what came before is of another epoch."""
    seen: int
    """Index at which it was noticed."""
    slower: bool


class Cusum:
    """Sums of surprises in both directions."""

    def __init__(self) -> None:
        self.count = 0
        self._sums = [0.0, 0.0]
        self._begins = [0, 0]

    @property
    def sums(self) -> tuple[float, float]:
        """Return the sums upwards (slower than expected) and downwards; at ``LIMIT`` something has
        changed."""
        return self._sums[0], self._sums[1]

    def add(self, surprise: float) -> Change | None:
        """Add one more surprise; returns a Change where the sum has reached the limit (it then
        begins anew)."""
        cut = min(max(surprise, -CUT), CUT)
        index, self.count = self.count, self.count + 1
        for way, sign in enumerate((1.0, -1.0)):
            if self._sums[way] == 0.0:
                self._begins[way] = index
            self._sums[way] = max(0.0, self._sums[way] + sign * cut - ALLOWANCE)
        for way in (0, 1):
            if self._sums[way] >= LIMIT:
                first = self._begins[way]
                self._sums = [0.0, 0.0]
                return Change(first, index, slower=way == 0)
        return None


class OnlineLevel:
    """By what factor the 90 % half width must be multiplied for nine in ten to hold."""

    def __init__(self, level: float = LEVEL, factor: float = 1.0) -> None:
        """Begin at a factor; ``level`` is the part that is to hold."""
        self.factor = factor
        """On the half width of a normal 90 % interval."""
        self._level = level

    def add(self, surprise: float) -> bool:
        """Add one more surprise; returns whether it was inside the interval as it stood."""
        inside = abs(surprise) <= NORMAL_90 * self.factor
        moved = STEP * ((0.0 if inside else 1.0) - (1.0 - self._level))
        self.factor = min(max(self.factor * math.exp(moved), _LEAST), _MOST)
        return inside


@dataclass(frozen=True, slots=True)
class Holding:
    """How intervals did that were widened as they went."""

    factor: float
    """Factor on the half width of the next ones."""
    jobs: int
    inside: int
    """Hits among the last ``WINDOW`` jobs."""

    @property
    def fails(self) -> bool:
        """Return whether clearly fewer than nine in ten hold, even so."""
        return self.jobs >= FEWEST and _wilson_high(self.inside, self.jobs) < LEVEL


def holding(surprises: Iterable[float]) -> Holding:
    """Return how intervals hold after a row of surprises, the oldest first."""
    level = OnlineLevel()
    inside = [level.add(surprise) for surprise in surprises][-WINDOW:]
    return Holding(level.factor, len(inside), sum(inside))


def _wilson_high(hits: int, count: int) -> float:
    """Return the upper end of Wilson's 95 % interval (1927) of a share."""
    share, z2 = hits / count, _Z * _Z
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2)) / (1 + z2 / count)
    return min(1.0, middle + half)


PRIOR_PROGRAMS = 2.0
_KEPT = 0.99
"""Factor on the weight of a program's jobs with each further one."""
_GRID: Floats = np.geomspace(0.2, 12.0, 83)
"""Factors on a normal 90 % half width; 5 % apart."""


class Held:
    """What share of surprises each factor would have held, by phase."""

    __slots__ = ("programs", "shares")

    def __init__(self) -> None:
        self.shares: Floats = np.zeros((PHASES, len(_GRID)))
        """[phases, factors] summed over programs."""
        self.programs: Floats = np.zeros(PHASES)
        """[phases] that had a job."""

    def __add__(self, other: Held) -> Held:
        total = Held()
        total.shares = self.shares + other.shares
        total.programs = self.programs + other.programs
        return total

    def __sub__(self, other: Held) -> Held:
        rest = Held()
        rest.shares = self.shares - other.shares
        rest.programs = self.programs - other.programs
        return rest


class HeldOfProgram(Held):
    """Of one program; a job counts the less the more of its phase came since."""

    __slots__ = ("_jobs",)

    def __init__(self) -> None:
        super().__init__()
        self._jobs = np.zeros(PHASES)

    def add(self, runs: int, surprise: float) -> None:
        """Add a job that came after so many ``runs`` of its program."""
        at = phase(runs)
        self._jobs[at] = _KEPT * self._jobs[at] + 1.0
        inside = abs(surprise) <= NORMAL_90 * _GRID
        self.shares[at] += (inside - self.shares[at]) / self._jobs[at]
        self.programs[at] = 1.0


def interval_factors(others: Held, parts: Components) -> tuple[float, ...]:
    """Return [phases] factors on intervals of a program that is none of ``others``."""
    factors = []
    for at, shipped in enumerate(parts.interval):
        prior = np.array([math.erf(NORMAL_90 * f / shipped / math.sqrt(2)) for f in _GRID])
        held = PRIOR_PROGRAMS * prior + others.shares[at]
        held /= PRIOR_PROGRAMS + others.programs[at]
        factors.append(float(np.exp(np.interp(LEVEL, held, np.log(_GRID)))))
    return tuple(factors)
