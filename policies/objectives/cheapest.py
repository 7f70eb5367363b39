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
        """Return the score; smaller is better (see ``Objective.score``)."""
        return estimate.cost

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """Return the parts of the score (see ``Objective.terms``)."""
        return cost_terms(estimate)
