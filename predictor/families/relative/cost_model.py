"""Times by a few costs a platform, corrected by what similar workloads did.

    time = launch + serial x (work of one thread) + rate x (work) + ratio x (reference's time)

All costs are positive and learnt in log time, so that launch-bound and serial workloads do not
have to lie on one line with the large ones. Gaussian processes correct what is left; a trend
over all features has a small say beside them, a large one on CPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.gaussian import Gaussian, Group
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.views import Seen, View, check_counters

ABSENT = -1e3
"""Log cost of a term that a platform does not have."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Positive costs of each platform."""

    terms: tuple[str, ...]
    log_cost: Floats
    """Platforms x terms."""

    def log_seconds(self, seen: Seen) -> Floats:
        """Rows x platforms: log of the sum of the terms."""
        logs = np.column_stack([seen.terms[name] for name in self.terms])
        each = logs[:, None, :] + self.log_cost
        most = each.max(axis=2)
        return np.asarray(most + np.log(np.exp(each - most[:, :, None]).sum(axis=2)))

    def shares(self, seen: Seen) -> Floats:
        """Rows x platforms x terms: which share of the predicted time each term has."""
        logs = np.column_stack([seen.terms[name] for name in self.terms])
        return np.asarray(
            np.exp(logs[:, None, :] + self.log_cost - self.log_seconds(seen)[:, :, None])
        )


@dataclass(frozen=True, slots=True)
class CostModel:
    """Costs, residual and trend: what a bundle of this family holds."""

    view: View
    counters: tuple[str, ...]
    fill: Floats
    """For missing counters: the training rows' median."""
    platforms: tuple[str, ...]
    reference: str
    costs: Costs
    residual: Gaussian
    trend: Gaussian
    """Of the log speedup."""
    trend_share: Floats
    """One a platform: the trend's weight beside the corrected costs."""

    def seen(self, rows: Rows) -> Seen:
        """``rows`` through the model's view. Raises UsageError where they do not fit the model."""
        check_counters(rows, self.counters)
        if rows.reference != self.reference:
            raise UsageError(
                f"the rows were piloted on {rows.reference}, the model learnt from {self.reference}"
            )
        if rows.platforms != self.platforms:
            raise UsageError(f"the model predicts {', '.join(self.platforms)}, in this order")
        return self.view.seen(rows, self.fill)

    def log_seconds(self, rows: Rows) -> Floats:
        """Rows x platforms; a time that is known is given back. Raises UsageError."""
        seen = self.seen(rows)
        groups = list(zip(rows.applications, rows.kernels, strict=True))
        guess = self.guess(seen, rows.log_reference, groups)
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)

    def guess(self, seen: Seen, log_reference: Floats, groups: Sequence[Group]) -> Floats:
        """Rows x platforms, the reference's own among them as if it were not known."""
        costs = self.costs.log_seconds(seen) + self.residual.mean(seen.features, groups)
        trend = log_reference[:, None] - self.trend.mean(seen.features, groups)
        return np.asarray(costs + self.trend_share * (trend - costs))
