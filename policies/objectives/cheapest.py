"""The smallest predicted time x price of the resources held."""

from __future__ import annotations

from berth.policies.objectives.protocol import NO_PRICE, Objective, Offer, Term, cost_terms


class Cheapest(Objective):
    """In the site's currency."""

    name = "cheapest"
    superlative = "is predicted cheapest"
    comparative = "cheaper"
    grows = True
    missing = NO_PRICE

    def score(self, offer: Offer) -> float | None:
        """See Objective."""
        return offer.cost

    def terms(self, offer: Offer) -> tuple[Term, ...]:
        """See Objective."""
        return cost_terms(offer)
