"""The figures of a replay of a part of the past jobs, and the metrics that a tune computes of them.

For every metric, smaller is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.policies.replay.users import bounded_slowdown


class TracePart(NamedTuple):
    """The jobs submitted in ``[begin_s, end_s)``, in seconds after the first submission."""

    begin_s: float
    end_s: float


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ReplayFigures:
    """Columns of the jobs that ended, in order of submission; times in seconds, NaN where
    unknown. Numbers of jobs are of all that were replayed, whichever rows are chosen."""

    submit_s: Floats
    """Seconds after the first submission of the trace."""
    wait_s: Floats
    runtime_s: Floats
    user: Ints
    """Index into ``users``."""
    cost: Floats
    energy_j: Floats
    core_s: Floats
    """Core-seconds: allocated cores times run time."""
    queue: Ints
    """Index into ``queues``: the queue where the job ran."""
    users: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    capacity: Mapping[str, float] | None = None
    """Number of cores by queue; None: unknown."""
    killed: int = 0
    """Number of jobs killed at their time limit."""
    unjudged: int = 0
    """Number of jobs that stayed in their queue because their run time elsewhere is unknown."""
    jobs: int = 0
    """Number of all jobs, including those that did not end."""
    ended: int = 0
    only_here: int = 0
    """Number of jobs whose run time is known on at most one platform."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Number of jobs that could not be replayed, by reason."""

    @property
    def finish_s(self) -> Floats:
        """Return [jobs] the seconds from submission to the end."""
        return self.wait_s + self.runtime_s

    @property
    def slowdown(self) -> Floats:
        """Return [jobs] the bounded slowdown: max(1, (wait + run) / max(run, 10 s))."""
        return bounded_slowdown(self.wait_s, self.runtime_s)

    def within(self, part: TracePart) -> ReplayFigures:
        """Return the figures of the jobs that were submitted in ``part``."""
        is_within = (self.submit_s >= part.begin_s) & (self.submit_s < part.end_s)
        return self.rows(np.flatnonzero(is_within))

    def rows(self, chosen: Ints) -> ReplayFigures:
        """Return the figures of the chosen jobs."""
        return replace(
            self, submit_s=self.submit_s[chosen], wait_s=self.wait_s[chosen],
            runtime_s=self.runtime_s[chosen], user=self.user[chosen], cost=self.cost[chosen],
            energy_j=self.energy_j[chosen], core_s=self.core_s[chosen], queue=self.queue[chosen],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TuningMetric:
    """A number computed from a replay's figures; smaller is better."""

    name: str
    title: str
    unit: str
    of: Callable[[ReplayFigures], float]


def _mean(column: Floats) -> float:
    return float(column.mean()) if len(column) else math.nan


def _quantile(column: Floats, level: float) -> float:
    return float(np.quantile(column, level)) if len(column) else math.nan


def by_user(figures: ReplayFigures, column: Floats) -> Floats:
    """Return [users] the mean of a per-job column over each user's jobs; NaN for users without a
    job."""
    count = np.bincount(figures.user, minlength=len(figures.users))
    total = np.bincount(figures.user, weights=column, minlength=len(figures.users))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total / count, dtype=np.float64)


def _unfair(figures: ReplayFigures) -> float:
    """Return the coefficient of variation of users' mean bounded slowdowns."""
    means = by_user(figures, figures.slowdown)
    means = means[np.isfinite(means)]
    return float(means.std() / means.mean()) if len(means) else math.nan


METRICS: Mapping[str, TuningMetric] = {
    metric.name: metric
    for metric in (
        TuningMetric(
            "finish", "mean time from submission to end", "s", lambda f: _mean(f.finish_s)
        ),
        TuningMetric("wait", "mean wait", "s", lambda f: _mean(f.wait_s)),
        TuningMetric(
            "p95-wait", "95th percentile of the wait", "s", lambda f: _quantile(f.wait_s, 0.95)
        ),
        TuningMetric(
            "p99-wait", "99th percentile of the wait", "s", lambda f: _quantile(f.wait_s, 0.99)
        ),
        TuningMetric("slowdown", "mean bounded slowdown", "", lambda f: _mean(f.slowdown)),
        TuningMetric("cost", "mean cost of a job", "currency", lambda f: _mean(f.cost)),
        TuningMetric("energy", "mean energy of a job", "J", lambda f: _mean(f.energy_j)),
        TuningMetric("unfairness", "variation of users' mean slowdowns", "", _unfair),
    )
}
"""All metrics, by name."""
