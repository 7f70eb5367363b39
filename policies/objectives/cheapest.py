"""The objective ``cheapest``: least cost, that is predicted time x price of the job's resources."""

from __future__ import annotations

from berth.policies.objectives.protocol import NO_PRICE, Estimate, Objective, Term, cost_terms


class Cheapest(Objective):
    """Choose the candidate with the least cost in the site's currency."""

    name = "cheapest"
    superlative = "is predicted cheapest"
    comparative = "cheaper"
    missing = NO_PRICE

    def score(self, estimate: Estimate) -> float | None:
        """Return the job's predicted cost in the site's currency; None: the site file gives no
        price.
        """
        return estimate.cost

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """Return the predicted cost, for a person to read."""
        return cost_terms(estimate)
