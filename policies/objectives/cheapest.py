"""The smallest predicted time x price of the resources held."""

from __future__ import annotations

from berth.policies.objectives.protocol import NO_PRICE, Estimate, Objective, Term, cost_terms


class Cheapest(Objective):
    """Smallest cost in the site's currency."""

    name = "cheapest"
    superlative = "is predicted cheapest"
    comparative = "cheaper"
    missing = NO_PRICE

    def score(self, estimate: Estimate) -> float | None:
        """See Objective."""
        return estimate.cost

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """See Objective."""
        return cost_terms(estimate)
