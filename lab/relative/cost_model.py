"""The cost model: run times from a few costs per platform, corrected by similar workloads.

  time = launch + serial x (work of one thread) + rate x (work) + ratio x (reference's time)

``launch`` (s), ``serial`` and ``rate`` (s per unit of work) and ``ratio`` (no unit) are costs of a
platform. All costs are positive and learnt in log time, so that small workloads, limited by
launches or serial parts, do not have to follow the same line as large ones. Gaussian processes
correct the remaining error. The prediction is mixed with a trend over all features, with a small
weight on GPUs and a large one on CPUs.

In a process, rows of one application share an error term, and so do rows of one kernel. A new
application gets none of these terms, another size of a known kernel gets all of them, and 34 rows
of one application do not count as 34 applications.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats, matern32
from berth.predictor.families.relative.bundle import check_counters
from berth.predictor.families.relative.rows import Rows
from lab.relative.views import View, ViewedRows

Group = tuple[str, str]
"""Application and kernel of a row."""


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Gaussian processes fitted to the same training rows, with one output per platform.

    mean = offset + amplitude x (constant + place . linear + sum over points of nearness x near, and
    for points of the same application: own + nearness x own_near, counted twice for points of the
    same kernel). ``place``: the standardised features; ``nearness``: Matern-3/2 kernel value
    between the place and a training point, one per length.
    """

    centre: Floats
    """Mean of each feature over the training rows."""
    scale: Floats
    """Divisor of each feature."""
    points: Floats
    """Training rows x features, centred and scaled."""
    groups: tuple[Group, ...]
    """Application and kernel of each training row."""
    lengths: Floats
    """Length scales of the kernels: rows much farther apart than this do not influence each
    other."""
    constant: Floats
    linear: Floats
    """Features x outputs."""
    near: Floats
    """Lengths x training rows x outputs."""
    own: Floats
    """Training rows x outputs."""
    own_near: Floats
    """Lengths x training rows x outputs."""
    offset: Floats
    amplitude: Floats
    _known: dict[str, list[int]] = field(init=False, repr=False, compare=False)
    _norms: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known: dict[str, list[int]] = {}
        for index, (application, _) in enumerate(self.groups):
            known.setdefault(application, []).append(index)
        object.__setattr__(self, "_known", known)
        object.__setattr__(self, "_norms", (self.points**2).sum(axis=1))

    def place(self, features: Floats) -> Floats:
        """Return the features centred and scaled; an unknown feature becomes 0, the training
        mean."""
        places = (features - self.centre) / self.scale
        return np.where(np.isfinite(places), places, 0.0)

    def mean(self, features: Floats, groups: Sequence[Group]) -> Floats:
        """Return the posterior means [rows, outputs] for rows with these features and groups."""
        places = self.place(features)
        squared = (places**2).sum(axis=1)[:, None] + self._norms - 2 * (places @ self.points.T)
        apart = np.sqrt(np.maximum(squared, 0.0))[:, None, :]
        nearness = matern32(apart / self.lengths[:, None])
        count, lengths, known = nearness.shape
        means = self.constant + places @ self.linear
        means += nearness.reshape(count, lengths * known) @ self.near.reshape(lengths * known, -1)
        for row, group in enumerate(groups):
            if group[0] in self._known:
                means[row] += self._own(group, nearness[row])
        return np.asarray(self.offset + self.amplitude * means)

    def _own(self, group: Group, nearness: Floats) -> Floats:
        """Return the contribution of training rows of the same application; rows of the same kernel
        count twice."""
        shared = self._known[group[0]]
        common = np.array([1.0 + (self.groups[index] == group) for index in shared])
        weights = self.own[shared] + np.einsum(
            "lk,lko->ko", nearness[:, shared], self.own_near[:, shared]
        )
        return np.asarray(common @ weights)


ABSENT = -1e3
"""Log cost of a term that a platform does not have; its cost is practically 0."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost per unit of each term (launches, serial work, work, ...) on each platform; all
    positive."""

    terms: tuple[str, ...]
    log_cost: Floats
    """Platforms x terms."""

    def log_seconds(self, seen: ViewedRows) -> Floats:
        """Return log seconds [rows, platforms]: the log of the sum of all cost terms."""
        logs = np.column_stack([seen.terms[name] for name in self.terms])
        each = logs[:, None, :] + self.log_cost
        most = each.max(axis=2)
        return np.asarray(most + np.log(np.exp(each - most[:, :, None]).sum(axis=2)))


@dataclass(frozen=True, slots=True)
class CostModel:
    """Cost model of run times: costs per platform, a Gaussian process on the residuals, and a
    trend."""

    view: View
    counters: tuple[str, ...]
    fill: Floats
    """Values that replace missing counters: the medians of the training rows."""
    platforms: tuple[str, ...]
    reference: str
    costs: Costs
    residual: Gaussian
    trend: Gaussian
    """Gaussian process of the log speedup."""
    trend_share: Floats
    """[platforms] weight of the trend against the corrected costs, 0 to 1."""

    def seen(self, rows: Rows) -> ViewedRows:
        """Return the features and cost terms that the model computes from the counters of ``rows``.

        Raises UsageError where the rows do not fit the model.
        """
        check_counters(rows, self.counters)
        if rows.reference != self.reference:
            raise UsageError(
                f"the rows were piloted on {rows.reference}, the model learnt from {self.reference}"
            )
        if rows.platforms != self.platforms:
            raise UsageError(f"the model predicts {', '.join(self.platforms)}, in this order")
        return self.view.seen(rows, self.fill)

    def log_seconds(self, rows: Rows) -> Floats:
        """Return predicted log seconds [rows, platforms]; known times are returned unchanged.

        Raises UsageError where the rows do not fit the model.
        """
        seen = self.seen(rows)
        groups = list(zip(rows.applications, rows.kernels, strict=True))
        guess = self.guess(seen, rows.log_reference, groups)
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)

    def guess(self, seen: ViewedRows, log_reference: Floats, groups: Sequence[Group]) -> Floats:
        """Return predicted log seconds [rows, platforms], also for platforms whose time is
        known."""
        costs = self.costs.log_seconds(seen) + self.residual.mean(seen.features, groups)
        trend = log_reference[:, None] - self.trend.mean(seen.features, groups)
        return np.asarray(costs + self.trend_share * (trend - costs))
