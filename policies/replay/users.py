"""How the users of a trace fare, in one replay and against another: who gains and who loses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from berth.policies.replay.columns import Floats
from berth.policies.replay.replayed import Replayed
from berth.policies.replay.weeks import Range, Weeks, ratio, span

SHORTEST_S = 10.0
"""Run times below count as this in bounded slowdown."""


class UserFigures(NamedTuple):
    """One user's jobs."""

    user: str
    jobs: int
    mean_wait_s: float
    mean_bounded_slowdown: float


class UserChange(NamedTuple):
    """One user's mean time from submission to end in two replays of the same jobs."""

    user: str
    jobs: int
    """That ended in both."""
    before_s: float
    after_s: float
    change: Range | None
    """Of the mean time, in seconds, over weeks and seeds; None: in one week and one seed only."""
    killed: int
    """Jobs that are killed after and were not before."""

    @property
    def loses(self) -> bool:
        """Whether the jobs end later for certain, or are killed."""
        later = self.change is not None and self.change.low > 0
        return later or (self.change is None and self.after_s > self.before_s) or self.killed > 0


def bounded_slowdown(wait_s: Floats, run_s: Floats) -> Floats:
    """[jobs]."""
    return np.maximum(1.0, (wait_s + run_s) / np.maximum(run_s, SHORTEST_S))


def by_user(replayed: Replayed) -> list[UserFigures]:
    """In order of the trace's users; those without a job that ended are left out."""
    ran = np.flatnonzero(replayed.ran)
    user = replayed.trace.user[ran]
    wait = replayed.wait_s[ran]
    slow = bounded_slowdown(wait, replayed.end_s[ran] - replayed.start_s[ran])
    size = int(user.max(initial=-1)) + 1
    jobs = np.bincount(user, minlength=size)
    waited, slowed = (np.bincount(user, weights=column, minlength=size) for column in (wait, slow))
    return [
        UserFigures(
            name_of(replayed, i),
            int(jobs[i]),
            float(waited[i] / jobs[i]),
            float(slowed[i] / jobs[i]),
        )
        for i in np.flatnonzero(jobs).tolist()
    ]


def changes_by_user(baseline: Sequence[Replayed], after: Sequence[Replayed]) -> list[UserChange]:
    """Those who lose most by job first. Both are replays that differ by their seed only; where
    there are as many of each, seed is compared with seed, else with the first."""
    if not after or not baseline:
        return []
    paired = len(baseline) == len(after)
    size = int(baseline[0].trace.user.max(initial=-1)) + 1
    jobs, was, now, killed = (np.zeros(size) for _ in range(4))
    drawn = []
    for seed, one in enumerate(after):
        before = baseline[seed] if paired else baseline[0]
        both = np.flatnonzero(before.ran & one.ran)
        user = before.trace.user[both]
        weeks = Weeks(before.trace.weeks[both], seed)
        first, then = (
            (x.end_s - x.trace.submit_s)[both] / len(after) for x in (before, one)
        )  # fmt: skip
        jobs += np.bincount(user, minlength=size) / len(after)
        was += np.bincount(user, weights=first, minlength=size)
        now += np.bincount(user, weights=then, minlength=size)
        dies = ((one.killed | one.killed_memory) & ~(before.killed | before.killed_memory))[both]
        killed += np.bincount(user, weights=dies / len(after), minlength=size)
        counts = weeks.by(user, size, np.ones(len(both)))
        drawn.append(ratio(weeks.by(user, size, (then - first) * len(after)), counts))
    draws = np.concatenate(drawn)
    submitted = baseline[0].trace.weeks[baseline[0].ran]
    sure = len(after) > 1 or len(np.unique(submitted)) > 1
    found = [
        UserChange(
            name_of(baseline[0], i), round(jobs[i]),
            float(was[i] / jobs[i]), float(now[i] / jobs[i]),
            span(draws[:, i]) if sure else None, round(killed[i]),
        )
        for i in np.flatnonzero(jobs >= 1).tolist()
    ]  # fmt: skip
    return sorted(found, key=lambda one: (one.before_s - one.after_s, one.user))


def name_of(replayed: Replayed, user: int) -> str:
    """Of a user's number; the number where the trace has no names."""
    names = replayed.trace.users
    return names[user] if user < len(names) else str(user)
