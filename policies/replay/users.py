"""Figures of each user in a replay, and each user's change between two replays, with intervals.

The 90 % intervals are bootstrapped over weeks of submission, because jobs of one week are not
independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from berth.policies.replay.replayed import Replayed
from berth.policies.replay.trace import Floats, Ints

DRAWS = 500
COVERED = (5.0, 95.0)


class Range(NamedTuple):
    """Lower and upper end of the 90 % interval of a figure of a replay."""

    low: float
    high: float


class Weeks:
    """Bootstrap samples of a trace's weeks, drawn with replacement, each with as many weeks as the
    trace.

    ``week``: [jobs] number of each job's week; any numbers.
    """

    def __init__(self, week: Ints, seed: int = 0, draws: int = DRAWS) -> None:
        self.place: Ints = np.unique(week, return_inverse=True)[1]
        self.count = int(self.place.max(initial=-1)) + 1
        size = max(self.count, 1)
        drawn = np.random.default_rng(seed).integers(0, size, (draws, size))
        self.times: Floats = np.stack([np.bincount(weeks, minlength=size) for weeks in drawn])
        """[draws][weeks] how often each week was drawn."""

    def sums(self, column: Floats) -> Floats:
        """Return [draws] the sum of a per-job column over the jobs of each bootstrap draw."""
        by_week = np.bincount(self.place, weights=column, minlength=max(self.count, 1))
        return np.asarray(self.times @ by_week, float)

    def means(self, column: Floats) -> Floats:
        """Return [draws] the mean of a per-job column over each bootstrap draw; NaN for a draw
        without jobs."""
        return ratio(self.sums(column), self.sums(np.ones(len(column))))

    def by(self, group: Ints, groups: int, column: Floats) -> Floats:
        """Return [draws][groups] the sums of a per-job column over each group's jobs in a bootstrap
        draw."""
        cell = self.place * groups + group
        size = max(self.count, 1) * groups
        by_week = np.bincount(cell, weights=column, minlength=size).reshape(-1, groups)
        return np.asarray(self.times @ by_week, float)

    def percentiles(self, column: Floats, percent: float) -> Floats:
        """Return [draws] a percentile of a per-job column over each bootstrap draw.

        A week that was drawn n times counts n times.
        """
        order = np.argsort(column, kind="stable")
        column, place = column[order], self.place[order]
        drawn = np.empty(len(self.times))
        for at, times in enumerate(self.times):
            total = np.cumsum(times[place])
            drawn[at] = column[np.searchsorted(total, total[-1] * percent / 100.0)]
        return drawn


def ratio(over: Floats, under: Floats) -> Floats:
    """Return the element-wise quotient; NaN where the divisor is not positive."""
    empty = np.full(np.shape(over), np.nan)
    return np.asarray(np.divide(over, under, out=empty, where=under > 0), float)


def span(values: Floats) -> Range:
    """Return the 5th and 95th percentile of the draws; NaN where all draws are NaN."""
    if np.all(np.isnan(values)):
        return Range(float("nan"), float("nan"))
    low, high = np.nanpercentile(values, COVERED)
    return Range(float(low), float(high))


SHORTEST_S = 10.0
"""Least run time in the bounded slowdown's divisor, in seconds (Feitelson 2001)."""


class UserChange(NamedTuple):
    """One user's mean time from submission to end in two replays of the same jobs."""

    user: str
    jobs: int
    """Number of the user's jobs that ended in both replays."""
    before_s: float
    after_s: float
    change: Range | None
    """90 % interval of the change of the mean in seconds, over weeks and seeds; None: the user has
    jobs in one week only, and there is one seed."""
    killed: int
    """Jobs that are killed in the second replay but not in the first."""

    @property
    def loses(self) -> bool:
        """Return whether the user's jobs end later in the second replay, or some are killed only
        there.

        With an interval, "later" means that all of the interval is above zero.
        """
        later = self.change is not None and self.change.low > 0
        return later or (self.change is None and self.after_s > self.before_s) or self.killed > 0


def bounded_slowdown(wait_s: Floats, run_s: Floats) -> Floats:
    """Return [jobs] the bounded slowdown: max(1, (wait + run) / max(run, 10 s)); arguments in
    seconds."""
    return np.maximum(1.0, (wait_s + run_s) / np.maximum(run_s, SHORTEST_S))


def changes_by_user(baseline: Sequence[Replayed], after: Sequence[Replayed]) -> list[UserChange]:
    """Return each user's change between the replays, sorted so that the largest loss per job comes
    first.

    Each sequence holds replays that differ only in their seed. If both have the same length, the
    n-th replays are compared with each other, else all are compared with the first of ``baseline``.
    """
    if not after or not baseline:
        return []
    paired = len(baseline) == len(after)
    size = int(baseline[0].trace.user.max(initial=-1)) + 1
    jobs, was, now, killed = (np.zeros(size) for _ in range(4))
    drawn = []
    for seed, replayed in enumerate(after):
        before = baseline[seed] if paired else baseline[0]
        both = np.flatnonzero(before.ran & replayed.ran)
        user = before.trace.user[both]
        weeks = Weeks(before.trace.weeks[both], seed)
        first, then = (
            (x.end_s - x.trace.submit_s)[both] / len(after) for x in (before, replayed)
        )  # fmt: skip
        jobs += np.bincount(user, minlength=size) / len(after)
        was += np.bincount(user, weights=first, minlength=size)
        now += np.bincount(user, weights=then, minlength=size)
        dies = (
            (replayed.killed | replayed.killed_memory) & ~(before.killed | before.killed_memory)
        )[both]
        killed += np.bincount(user, weights=dies / len(after), minlength=size)
        counts = weeks.by(user, size, np.ones(len(both)))
        drawn.append(ratio(weeks.by(user, size, (then - first) * len(after)), counts))
    draws = np.concatenate(drawn)
    trace, ran = baseline[0].trace, baseline[0].ran
    cells = np.unique(np.stack([trace.user[ran], trace.weeks[ran]], axis=1), axis=0)
    weeks_of_user = np.bincount(cells[:, 0], minlength=size)
    changes = [
        UserChange(
            name_of(baseline[0], i), round(jobs[i]),
            float(was[i] / jobs[i]), float(now[i] / jobs[i]),
            span(draws[:, i]) if len(after) > 1 or weeks_of_user[i] > 1 else None, round(killed[i]),
        )
        for i in np.flatnonzero(jobs >= 1).tolist()
    ]  # fmt: skip
    return sorted(
        changes, key=lambda replayed: (replayed.before_s - replayed.after_s, replayed.user)
    )


def name_of(replayed: Replayed, user: int) -> str:
    """Return the name of the user with this number; the number as text where the trace has no
    names."""
    names = replayed.trace.users
    return names[user] if user < len(names) else str(user)
