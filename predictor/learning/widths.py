"""How wide intervals must be by how many runs of a program were seen, from a site's programs.

A posterior's deviations are right for the data that its variances were fitted on; at another site
first runs may be further off than stated and later ones nearer, or the other way round. So each
program's surprises are counted by how many runs it had before, and another program's intervals get
the factor at which nine in ten of these would have held. Programs weigh the same, whatever their
number of jobs; the factors that ship count as ``PRIOR_PROGRAMS`` of them.
"""

from __future__ import annotations

import math

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import LEVEL, NORMAL_90
from berth.predictor.learning.components import PHASES, Components, phase

PRIOR_PROGRAMS = 2.0
_KEPT = 0.99
"""Of the weight of a program's jobs with each further one."""
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
        found = Held()
        found.shares = self.shares + other.shares
        found.programs = self.programs + other.programs
        return found

    def __sub__(self, other: Held) -> Held:
        found = Held()
        found.shares = self.shares - other.shares
        found.programs = self.programs - other.programs
        return found


class HeldOfProgram(Held):
    """Of one program; a job counts the less the more of its phase came since."""

    __slots__ = ("_jobs",)

    def __init__(self) -> None:
        super().__init__()
        self._jobs = np.zeros(PHASES)

    def add(self, runs: int, surprise: float) -> None:
        """A job that came after so many ``runs`` of its program."""
        at = phase(runs)
        self._jobs[at] = _KEPT * self._jobs[at] + 1.0
        inside = abs(surprise) <= NORMAL_90 * _GRID
        self.shares[at] += (inside - self.shares[at]) / self._jobs[at]
        self.programs[at] = 1.0


def interval_factors(others: Held, parts: Components) -> tuple[float, ...]:
    """[phases] factors on intervals of a program that is none of ``others``."""
    found = []
    for at, shipped in enumerate(parts.interval):
        prior = np.array([math.erf(NORMAL_90 * f / shipped / math.sqrt(2)) for f in _GRID])
        held = PRIOR_PROGRAMS * prior + others.shares[at]
        held /= PRIOR_PROGRAMS + others.programs[at]
        found.append(float(np.exp(np.interp(LEVEL, held, np.log(_GRID)))))
    return tuple(found)
