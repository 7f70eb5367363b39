"""What a tune asks of a replay: the figures of a policy on a part of the past."""

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
        """What of the jobs was changed or left out when they were read, in lines."""
        ...

    @property
    def span_s(self) -> float:
        """From the first submission to the last."""
        ...

    def replay(self, policy: PolicySettings, part: Part) -> Figures:
        """What would have happened to the jobs of ``part`` under ``policy``."""
        ...

    @property
    def layouts(self) -> Sequence[str]:
        """Ways to cut a GPU that leave no room; empty where none, or several models, are cut."""
        ...

    @property
    def slicing(self) -> Slicing:
        """How GPUs are cut."""
        ...

    def cut(self, slicing: Slicing) -> Replayer:
        """The same jobs on GPUs that are cut so."""
        ...

    def in_pools(self) -> Replayer:
        """A faster one, good enough to compare trials: without fragmentation of nodes."""
        ...


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SHORT_S = 10.0
"""Shorter jobs count as so long in slowdowns (Feitelson 2001)."""


@dataclass(frozen=True)
class Figures:
    """[jobs] that ended, by submission; times in seconds. NaN where nobody knows."""

    submit_s: Floats
    """After the first submission of the trace."""
    wait_s: Floats
    runtime_s: Floats
    user: Ints
    """Place in ``users``."""
    cost: Floats
    energy_j: Floats
    core_s: Floats
    """Cores held x time."""
    queue: Ints
    """Place in ``queues``: where it ran."""
    users: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    capacity: Mapping[str, float] | None = None
    """Cores by queue; None: not known."""
    killed: int = 0
    """By their time limit."""
    unjudged: int = 0
    """Stayed where they were, since nobody knows what they would have done elsewhere."""
    jobs: int = 0
    """In all, those that did not end too."""
    only_here: int = 0
    """Of those, jobs whose time nobody knows on another platform than where they were."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Jobs that could not be replayed, by reason."""

    @property
    def finish_s(self) -> Floats:
        """[jobs] from submission to the end."""
        return self.wait_s + self.runtime_s

    @property
    def slowdown(self) -> Floats:
        """[jobs] bounded slowdown, at least 1."""
        longest = np.maximum(self.runtime_s, SHORT_S)
        return np.maximum((self.wait_s + self.runtime_s) / longest, 1.0)

    def rows(self, kept: Ints) -> Figures:
        """Some jobs, or the same ones several times (bootstrap)."""
        return replace(
            self, submit_s=self.submit_s[kept], wait_s=self.wait_s[kept],
            runtime_s=self.runtime_s[kept], user=self.user[kept], cost=self.cost[kept],
            energy_j=self.energy_j[kept], core_s=self.core_s[kept], queue=self.queue[kept],
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
    """[users] the mean of a column; NaN for those without a job."""
    count = np.bincount(figures.user, minlength=len(figures.users))
    total = np.bincount(figures.user, weights=column, minlength=len(figures.users))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total / count, dtype=np.float64)


def _unfair(figures: Figures) -> float:
    """Coefficient of variation of users' mean bounded slowdowns."""
    means = by_user(figures, figures.slowdown)
    means = means[np.isfinite(means)]
    return float(means.std() / means.mean()) if len(means) else math.nan


METRICS: Mapping[str, Metric] = {
    one.name: one
    for one in (
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
"""By name."""
