"""Pictures of tunes and of replays: Pareto front and waits; the users who change most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from berth.plugin.pictures.figure import axes_of, drawing, element, time_ticks
from berth.policies.tuning.figures import ReplayFigures, by_user
from berth.policies.tuning.judgement import Judgement
from berth.policies.tuning.study import Tuned

GRID, REST, NOW, THEN, UP = "#d9dee3", "#9aa3ad", "#2f6690", "#d98324", "#2a7f62"
MOST_USERS = 12
FEWEST_JOBS = 5
POINTS = 400
HOUR_S = 3600.0
LABELS = ("today's", "tuned")
Labels = tuple[str, str]


def front(tuned: Tuned, judgement: Judgement, metrics: Sequence[tuple[str, float]]) -> str:
    """Return an SVG of all trials in the first two metrics; with one metric, by trial number.

    ``metrics``: each axis's label, and the divisor of its values.
    """
    two = len(metrics) > 1
    (first, scale), (second, other) = metrics[0], metrics[1] if two else metrics[0]
    with drawing(GRID):
        figure, axes = axes_of(GRID, 6.4, 3.6)
        for group, colour, size, label in (
            (tuned.tried, REST, 12, "trials"),
            (tuned.front, UP, 26, "not beaten in every metric"),
            (() if tuned.today is None else (tuned.today,), NOW, 60, "today's policy"),
            (() if judgement.recommended is None else (judgement.recommended,), THEN, 60,
             "judged on the test weeks"),
        ):  # fmt: skip
            if group:
                x = [trial.scores[0] / scale if two else float(trial.number) for trial in group]
                y = [trial.scores[1 if two else 0] / other for trial in group]
                axes.scatter(x, y, s=size, color=colour, label=label, zorder=3, alpha=0.9)
        axes.set_xlabel(first if two else "trial")
        axes.set_ylabel(second)
        axes.legend(frameon=False, fontsize=8)
        return element(figure)


def waits(before: ReplayFigures, after: ReplayFigures, labels: Labels = LABELS) -> str:
    """Return an SVG of the share of jobs that waited at most a given time, for both replays, on a
    logarithmic axis."""
    with drawing(GRID):
        figure, axes = axes_of(GRID, 6.4, 3.0)
        for figures, colour, label in ((before, NOW, labels[0]), (after, THEN, labels[1])):
            levels = np.linspace(0, 1, POINTS)
            if len(figures.wait_s):
                axes.plot(np.maximum(np.quantile(figures.wait_s, levels), 1.0), levels,
                          color=colour, label=label)  # fmt: skip
        axes.set_xscale("log")
        time_ticks(axes.xaxis, *axes.get_xlim())
        axes.set_xlabel("wait (at least 1 s)")
        axes.set_ylabel("share of jobs")
        axes.legend(frameon=False, fontsize=8)
        return element(figure)


class UserMeans(NamedTuple):
    """One user's mean time from submission to end, in seconds, in both replays."""

    user: str
    jobs: int
    before_s: float
    after_s: float

    @property
    def change(self) -> float:
        """Return the relative change of the mean time (0.1: 10 % longer; below 0: shorter)."""
        return self.after_s / self.before_s - 1


def changed_users(before: ReplayFigures, after: ReplayFigures) -> list[UserMeans]:
    """Return every user's change of mean time from submission to end, for users with known times in
    both replays."""
    now, then = by_user(before, before.finish_s), by_user(after, after.finish_s)
    jobs = np.bincount(before.user, minlength=len(before.users))
    known = np.flatnonzero(np.isfinite(now) & np.isfinite(then) & (now > 0))
    return [UserMeans(before.users[i], int(jobs[i]), float(now[i]), float(then[i])) for i in known]


def most_changed(changes: Sequence[UserMeans]) -> list[UserMeans]:
    """Return the users whose mean time changes most, from the largest gain to the largest loss.

    Losers and gainers each get at least half of the ``MOST_USERS`` places, if there are so many.
    Users with fewer than ``FEWEST_JOBS`` jobs are left out where others changed: one job that ends
    a hundred times later would hide all changes that matter.
    """
    changes = [change for change in changes if change.jobs >= FEWEST_JOBS] or changes
    order = sorted(changes, key=lambda change: -abs(change.change) * change.jobs**0.5)
    lose, gain = (
        [change for change in order if (change.change > 0) == losing] for losing in (True, False)
    )
    room = max(MOST_USERS // 2, MOST_USERS - len(gain))
    shown = lose[:room]
    return sorted([*shown, *gain[: MOST_USERS - len(shown)]], key=lambda change: change.change)
