"""The replay that a tune asks for: the figures of a policy on a part of the past, and the metrics.

Of every metric smaller is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from berth.policies.settings import PolicySettings
from berth.policies.tuning.parameters import Slicing


class Part(NamedTuple):
    """Jobs submitted in ``[begin_s, end_s)``, in seconds after the first submission."""

    begin_s: float
    end_s: float


class Replayer(Protocol):
    """A trace on a cluster. Equal questions get equal answers."""

    @property
    def notes(self) -> Sequence[str]:
        """Return what of the jobs was changed or left out when they were read, in lines."""
        ...

    @property
    def span_s(self) -> float:
        """Return the time from the first submission to the last, in seconds."""
        ...

    def replay(self, policy: PolicySettings, part: Part) -> Figures:
        """Return what would have happened to the jobs of ``part`` under ``policy``."""
        ...

    @property
    def layouts(self) -> Sequence[str]:
        """Return ways to cut a GPU that leave no room; empty where none, or several models, are
        cut."""
        ...

    @property
    def slicing(self) -> Slicing:
        """Return how GPUs are cut."""
        ...

    def cut(self, slicing: Slicing) -> Replayer:
        """Return a replayer of the same jobs on GPUs that are cut so."""
        ...

    def in_pools(self) -> Replayer:
        """Return a faster one, good enough to compare trials: without fragmentation of nodes."""
        ...


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SHORT_S = 10.0
"""Shorter jobs count as so long in slowdowns (Feitelson 2001), in seconds."""


@dataclass(frozen=True)
class Figures:
    """Columns of the jobs that ended, by submission; times in seconds, NaN where not known."""

    submit_s: Floats
    """Seconds after the first submission of the trace."""
    wait_s: Floats
    runtime_s: Floats
    user: Ints
    """Place in ``users``."""
    cost: Floats
    energy_j: Floats
    core_s: Floats
    """Cores held times the time."""
    queue: Ints
    """Place in ``queues``: where the job ran."""
    users: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    capacity: Mapping[str, float] | None = None
    """Cores by queue; None: not known."""
    killed: int = 0
    """Jobs killed by their time limit."""
    unjudged: int = 0
    """Jobs that stayed where they were, since nobody knows how long they take elsewhere."""
    jobs: int = 0
    """All jobs, those that did not end too."""
    only_here: int = 0
    """Jobs whose time nobody knows on another platform than where they ran."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Jobs that could not be replayed, by reason."""

    @property
    def finish_s(self) -> Floats:
        """Return [jobs] the time from submission to the end."""
        return self.wait_s + self.runtime_s

    @property
    def slowdown(self) -> Floats:
        """Return [jobs] the bounded slowdown, at least 1."""
        longest = np.maximum(self.runtime_s, SHORT_S)
        return np.maximum((self.wait_s + self.runtime_s) / longest, 1.0)

    def rows(self, chosen: Ints) -> Figures:
        """Return the figures of some jobs, or of the same ones several times (bootstrap)."""
        return replace(
            self, submit_s=self.submit_s[chosen], wait_s=self.wait_s[chosen],
            runtime_s=self.runtime_s[chosen], user=self.user[chosen], cost=self.cost[chosen],
            energy_j=self.energy_j[chosen], core_s=self.core_s[chosen], queue=self.queue[chosen],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a replay; smaller is better."""

    name: str
    title: str
    unit: str
    of: Callable[[Figures], float]


def _mean(column: Floats) -> float:
    return float(column.mean()) if len(column) else math.nan


def _quantile(column: Floats, level: float) -> float:
    return float(np.quantile(column, level)) if len(column) else math.nan


def by_user(figures: Figures, column: Floats) -> Floats:
    """Return [users] the mean of a column; NaN for those without a job."""
    count = np.bincount(figures.user, minlength=len(figures.users))
    total = np.bincount(figures.user, weights=column, minlength=len(figures.users))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total / count, dtype=np.float64)


def _unfair(figures: Figures) -> float:
    """Return the coefficient of variation of users' mean bounded slowdowns."""
    means = by_user(figures, figures.slowdown)
    means = means[np.isfinite(means)]
    return float(means.std() / means.mean()) if len(means) else math.nan


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("finish", "mean time from submission to end", "s", lambda f: _mean(f.finish_s)),
        Metric("wait", "mean wait", "s", lambda f: _mean(f.wait_s)),
        Metric("p95-wait", "95th percentile of the wait", "s", lambda f: _quantile(f.wait_s, 0.95)),
        Metric("p99-wait", "99th percentile of the wait", "s", lambda f: _quantile(f.wait_s, 0.99)),
        Metric("slowdown", "mean bounded slowdown", "", lambda f: _mean(f.slowdown)),
        Metric("cost", "mean cost of a job", "currency", lambda f: _mean(f.cost)),
        Metric("energy", "mean energy of a job", "J", lambda f: _mean(f.energy_j)),
        Metric("unfairness", "variation of users' mean slowdowns", "", _unfair),
    )
}
"""All metrics, by name."""
