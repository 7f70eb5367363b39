"""The smallest predicted time."""

from __future__ import annotations

from berth.policies.objectives.protocol import Estimate, Objective, Term, time_terms


class Fastest(Objective):
    """Smallest number of seconds, with the expected wait as the site weighs it."""

    name = "fastest"
    superlative = "is predicted fastest"
    comparative = "faster"

    def score(self, estimate: Estimate) -> float | None:
        """See Objective."""
        return estimate.time_s

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """See Objective."""
        return time_terms(estimate)
