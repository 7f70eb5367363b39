"""Pictures of tunes and of replays: Pareto front, waits, use of queues, users' changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from berth.plugin.pictures.figure import INK, axes_of, drawing, element, time_ticks, trimmed
from berth.policies.tuning.figures import ReplayFigures, by_user
from berth.policies.tuning.judgement import Judgement
from berth.policies.tuning.study import Tuned

GRID, REST, NOW, THEN, UP, DOWN = (
    "#d9dee3", "#9aa3ad", "#2f6690", "#d98324", "#2a7f62", "#b5493b",
)  # fmt: skip
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
        for figures, colour, label in _both(before, after, labels):
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


def use(before: ReplayFigures, after: ReplayFigures, labels: Labels = LABELS) -> str:
    """Return an SVG of the cores in use in each queue over time, for both replays."""
    queues = before.queues or ("all",)
    with drawing(GRID):
        from matplotlib.figure import Figure  # noqa: PLC0415 - of the extra

        figure = Figure(figsize=(6.4, 1.0 + 1.15 * len(queues)), layout="constrained")
        axes = None
        for index, name in enumerate(queues):
            axes = figure.add_subplot(len(queues), 1, index + 1, sharex=axes)
            trimmed(axes, GRID)
            for figures, colour, label in _both(before, after, labels):
                hours, cores = _cores(figures, index)
                axes.plot(hours / 24, cores, color=colour, lw=0.9, label=label)
            room = (before.capacity or {}).get(name)
            if room:
                axes.axhline(room, color=INK, lw=0.7, ls=":")
            axes.set_ylabel(name, rotation=0, ha="right")
            if index == 0:
                above = (1.0, 1.0)
                axes.legend(
                    frameon=False, fontsize=8, ncols=2, loc="lower right", bbox_to_anchor=above
                )
        if axes is not None:
            axes.set_xlabel("days; cores in use (dotted: all there are)")
        return element(figure)


def _both(
    before: ReplayFigures, after: ReplayFigures, labels: Labels
) -> tuple[tuple[ReplayFigures, str, str], tuple[ReplayFigures, str, str]]:
    return (before, NOW, labels[0]), (after, THEN, labels[1])


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


def users(before: ReplayFigures, after: ReplayFigures) -> str:
    """Return an SVG of the users whose mean time from submission to end changes most."""
    changes = most_changed(changed_users(before, after))
    with drawing(GRID):
        figure, axes = axes_of(GRID, 6.4, 0.8 + 0.24 * max(len(changes), 1))
        values = [100 * change.change for change in changes]
        colours = [UP if value <= 0 else DOWN for value in values]
        axes.barh(range(len(changes)), values, color=colours, zorder=3)
        axes.set_yticks(
            range(len(changes)), [f"{change.user} ({change.jobs} jobs)" for change in changes]
        )
        axes.axvline(0, color=INK, lw=0.8)
        axes.set_xlabel("change of the mean time from submission to end, %")
        return element(figure)


def _cores(figures: ReplayFigures, queue: int) -> tuple[Any, Any]:
    """Return times in hours after the first submission, and the mean cores in use around each."""
    own = np.flatnonzero((figures.queue == queue) & (figures.runtime_s > 0))
    if not len(own):
        return np.zeros(1), np.zeros(1)
    start = (figures.submit_s + figures.wait_s)[own] / HOUR_S
    end = start + figures.runtime_s[own] / HOUR_S
    cores = figures.core_s[own] / figures.runtime_s[own]
    begin = float(figures.submit_s.min() // HOUR_S)
    edges = np.linspace(begin, max(float(end.max()), begin + 1), POINTS + 1)
    # Core-hours done before each time: each job adds a ramp, and the slope is the cores in use.
    order_start, order_end = np.argsort(start), np.argsort(end)
    work = np.zeros(len(edges))
    for times, order, sign in ((start, order_start, 1.0), (end, order_end, -1.0)):
        place = np.searchsorted(times[order], edges, side="right")
        count = np.concatenate([[0.0], np.cumsum(cores[order])])
        moment = np.concatenate([[0.0], np.cumsum((cores * times)[order])])
        work += sign * (edges * count[place] - moment[place])
    return (edges[:-1] + edges[1:]) / 2 - begin, np.diff(work) / np.diff(edges)
