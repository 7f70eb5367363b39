"""The earliest predicted end: wait and run, whatever the site's weight of waiting."""

from __future__ import annotations

from berth.policies.objectives.costs import length_of, wait_of
from berth.policies.objectives.protocol import Objective, Offer, Term, time_terms


class Earliest(Objective):
    """Seconds from now to the end."""

    name = "earliest"
    superlative = "is predicted to finish first"
    comparative = "sooner"
    grows = True
    waits = True

    def score(self, offer: Offer) -> float | None:
        """See Objective."""
        return length_of(offer) + wait_of(offer)

    def terms(self, offer: Offer) -> tuple[Term, ...]:
        """See Objective."""
        if offer.makespan is not None:
            return time_terms(offer)
        predicted = Term("predicted time", offer.runtime_s.mid, "s")
        return (predicted, Term("expected wait", wait_of(offer), "s"))
