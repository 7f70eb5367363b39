"""Time against cost, each with an exponent."""

from __future__ import annotations

from berth.policies.objectives.protocol import (
    NO_PRICE,
    Objective,
    Offer,
    Term,
    cost_terms,
    time_terms,
)
from berth.policies.settings import Weights


class Balanced(Objective):
    """Smallest time**weights.time x cost**weights.cost."""

    name = "balanced"
    superlative = "is predicted the best balance of time and cost"
    missing = NO_PRICE

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def score(self, offer: Offer) -> float | None:
        """See Objective."""
        if offer.cost is None:
            return None
        return float(offer.time_s**self._weights.time * offer.cost**self._weights.cost)

    def terms(self, offer: Offer) -> tuple[Term, ...]:
        """See Objective."""
        exponents = (
            Term("exponent of the time", self._weights.time, ""),
            Term("exponent of the cost", self._weights.cost, ""),
        )
        return (*time_terms(offer), *cost_terms(offer), *exponents)
