"""The smallest predicted time."""

from __future__ import annotations

from berth.policies.objectives.protocol import Objective, Offer, Term, time_terms


class Fastest(Objective):
    """Seconds, with the expected wait as the site weighs it."""

    name = "fastest"
    superlative = "is predicted fastest"
    comparative = "faster"
    grows = True

    def score(self, offer: Offer) -> float | None:
        """See Objective."""
        return offer.time_s

    def terms(self, offer: Offer) -> tuple[Term, ...]:
        """See Objective."""
        return time_terms(offer)
