"""Intervals of 90 %, bootstrapped over weeks: jobs of one week are not independent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from berth.policies.replay.columns import Floats, Ints

DRAWS = 500
COVERED = (5.0, 95.0)


class Range(NamedTuple):
    """Of a figure, 90 %."""

    low: float
    high: float


class Weeks:
    """Draws of as many weeks as there are, with replacement. ``week``: [jobs] any numbers."""

    def __init__(self, week: Ints, seed: int = 0, draws: int = DRAWS) -> None:
        self.place: Ints = np.unique(week, return_inverse=True)[1]
        self.count = int(self.place.max(initial=-1)) + 1
        size = max(self.count, 1)
        drawn = np.random.default_rng(seed).integers(0, size, (draws, size))
        self.times: Floats = np.stack([np.bincount(one, minlength=size) for one in drawn])
        """[draws][weeks] how often each was drawn."""

    def sums(self, column: Floats) -> Floats:
        """[draws] of a column of the jobs."""
        by_week = np.bincount(self.place, weights=column, minlength=max(self.count, 1))
        return np.asarray(self.times @ by_week, float)

    def means(self, column: Floats) -> Floats:
        """[draws]; NaN where no job was drawn."""
        return ratio(self.sums(column), self.sums(np.ones(len(column))))

    def by(self, group: Ints, groups: int, column: Floats) -> Floats:
        """[draws][groups] sums of the jobs of each group."""
        cell = self.place * groups + group
        size = max(self.count, 1) * groups
        by_week = np.bincount(cell, weights=column, minlength=size).reshape(-1, groups)
        return np.asarray(self.times @ by_week, float)

    def percentiles(self, column: Floats, percent: float) -> Floats:
        """[draws] of the jobs of the drawn weeks, each counted as often as drawn."""
        order = np.argsort(column, kind="stable")
        column, place = column[order], self.place[order]
        found = np.empty(len(self.times))
        for at, times in enumerate(self.times):
            total = np.cumsum(times[place])
            found[at] = column[np.searchsorted(total, total[-1] * percent / 100.0)]
        return found


def ratio(over: Floats, under: Floats) -> Floats:
    """NaN where nothing is underneath."""
    empty = np.full(np.shape(over), np.nan)
    return np.asarray(np.divide(over, under, out=empty, where=under > 0), float)


def span(values: Floats) -> Range:
    """The middle 90 % of draws; NaN where there are none."""
    if np.all(np.isnan(values)):
        return Range(float("nan"), float("nan"))
    low, high = np.nanpercentile(values, COVERED)
    return Range(float(low), float(high))
