"""Detection of changes, and factors on interval widths, from the surprises of finished jobs.

A surprise is a finished job's log time minus the log time expected from all earlier jobs, in
standard deviations. CUSUM (Page, "Continuous inspection schemes", 1954) sums surprises beyond half
a standard deviation, upwards and downwards; surprises are clipped at three, so that one outlier is
no change. Adaptive conformal inference (Gibbs and Candes, "Adaptive conformal inference under
distribution shift", 2021; here the width itself is adjusted, as by Angelopoulos, Candes and
Tibshirani, "Conformal PID control for time series prediction", 2023) widens intervals after each
miss and narrows them after each hit, so that in the long run 90 % hold.

A posterior's standard deviations are right for the data that its variances were fitted on. At
another site first runs may be further off than stated and later runs nearer, or the other way
round. So each program's surprises are counted by the number of earlier runs, and the intervals of
another program get the factor at which 90 % of these surprises would have been inside. All programs
have the same weight, whatever their number of jobs; the shipped factors count as ``PRIOR_PROGRAMS``
programs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import LEVEL, NORMAL_90, wilson
from berth.predictor.learning.cells import PHASES, Components, phase

ALLOWANCE = 0.5
"""Standard deviations subtracted from each surprise before it is added up."""
LIMIT = 8.0
"""Sum at which a change is detected: four jobs of 3 standard deviations, 16 of one."""
CUT = 3.0
"""Standard deviations at which surprises are clipped."""
STEP = 0.15
"""Step of the log factor: up by 0.9 of it after a miss, down by 0.1 of it after a hit."""
_LEAST, _MOST = 0.6, 20.0
"""Bounds of the factor."""
WINDOW = 20
"""Number of last jobs over which the coverage of intervals is judged."""
FEWEST = 10
"""Number of jobs below which the coverage is not judged."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A detected change in a sequence of surprises."""

    first: int
    """Index of the first surprise of the excursion; earlier jobs belong to the previous epoch."""
    seen: int
    """Index of the surprise at which the change was detected."""
    slower: bool
    """Whether jobs became slower than expected; otherwise they became faster."""


class Cusum:
    """Cumulative sums of surprises, for slower and for faster jobs."""

    def __init__(self) -> None:
        self.count = 0
        self._sums = [0.0, 0.0]
        self._begins = [0, 0]

    @property
    def sums(self) -> tuple[float, float]:
        """Return the sums for jobs slower and faster than expected; a change is detected at
        ``LIMIT``."""
        return self._sums[0], self._sums[1]

    def add(self, surprise: float) -> ChangePoint | None:
        """Add a job's surprise; return a Change where a sum reached ``LIMIT`` (both sums restart at
        0), else None.

        A surprise is the log time minus the expected log time, in standard deviations.
        """
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
                return ChangePoint(first, index, slower=way == 0)
        return None


class OnlineLevel:
    """Factor on the 90 % half width, adjusted after each job so that 90 % of jobs are inside."""

    def __init__(self) -> None:
        self.factor = 1.0
        """Factor on the half width of a normal 90 % interval."""

    def add(self, surprise: float) -> bool:
        """Widen or narrow the factor after a job; return whether the job was inside the interval
        before.

        ``surprise``: log time minus expected log time, in standard deviations.
        """
        inside = abs(surprise) <= NORMAL_90 * self.factor
        moved = STEP * ((0.0 if inside else 1.0) - (1.0 - LEVEL))
        self.factor = min(max(self.factor * math.exp(moved), _LEAST), _MOST)
        return inside


@dataclass(frozen=True, slots=True)
class Holding:
    """Coverage of intervals that were adjusted online, over the last jobs."""

    factor: float
    """Factor on the half width of the next interval."""
    jobs: int
    """Number of jobs judged, at most ``WINDOW``."""
    inside: int
    """Number of these jobs inside their intervals."""

    @property
    def fails(self) -> bool:
        """Return whether significantly fewer than 90 % of the jobs were inside, despite the
        factor."""
        return self.jobs >= FEWEST and wilson(self.inside, self.jobs)[1] < LEVEL


def holding(surprises: Iterable[float]) -> Holding:
    """Return how many of the last jobs were inside intervals adjusted online, and the factor for
    the next.

    ``surprises``: log time minus expected log time in standard deviations, the oldest first.
    """
    level = OnlineLevel()
    inside = [level.add(surprise) for surprise in surprises][-WINDOW:]
    return Holding(level.factor, len(inside), sum(inside))


PRIOR_PROGRAMS = 2.0
"""Number of programs that the shipped factors count as."""
_KEPT = 0.99
"""Factor on the weight of a program's earlier jobs with each further job."""
_GRID: Floats = np.geomspace(0.2, 12.0, 83)
"""Factors on a normal 90 % half width that are compared; 5 % apart."""


class CoverageGrid:
    """Share of job times inside their 90 % interval for each of a grid of width factors, by phase.

    Shares are summed over programs; the phase is by the number of earlier runs of the program.
    """

    __slots__ = ("programs", "shares")

    def __init__(self) -> None:
        self.shares: Floats = np.zeros((PHASES, len(_GRID)))
        """[phases, factors] shares summed over programs."""
        self.programs: Floats = np.zeros(PHASES)
        """[phases] number of programs with a job in the phase."""

    def __add__(self, other: CoverageGrid) -> CoverageGrid:
        total = CoverageGrid()
        total.shares = self.shares + other.shares
        total.programs = self.programs + other.programs
        return total

    def __sub__(self, other: CoverageGrid) -> CoverageGrid:
        rest = CoverageGrid()
        rest.shares = self.shares - other.shares
        rest.programs = self.programs - other.programs
        return rest


class ProgramCoverage(CoverageGrid):
    """Share of one program's job times inside their intervals for each width factor; recent jobs
    weigh more."""

    __slots__ = ("_jobs",)

    def __init__(self) -> None:
        super().__init__()
        self._jobs = np.zeros(PHASES)

    def add(self, runs: int, surprise: float) -> None:
        """Add a job that came after ``runs`` runs of its program.

        ``surprise``: log time minus expected log time, in standard deviations.
        """
        at = phase(runs)
        self._jobs[at] = _KEPT * self._jobs[at] + 1.0
        inside = abs(surprise) <= NORMAL_90 * _GRID
        self.shares[at] += (inside - self.shares[at]) / self._jobs[at]
        self.programs[at] = 1.0


def interval_factors(others: CoverageGrid, parts: Components) -> tuple[float, ...]:
    """Return the factor on interval widths in each phase, for a program that is not among
    ``others``."""
    factors = []
    for at, shipped in enumerate(parts.interval):
        prior = np.array([math.erf(NORMAL_90 * f / shipped / math.sqrt(2)) for f in _GRID])
        held = PRIOR_PROGRAMS * prior + others.shares[at]
        held /= PRIOR_PROGRAMS + others.programs[at]
        factors.append(float(np.exp(np.interp(LEVEL, held, np.log(_GRID)))))
    return tuple(factors)
