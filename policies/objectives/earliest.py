"""The earliest predicted end: wait and run, whatever the site's weight of waiting."""

from __future__ import annotations

from berth.policies.objectives.costs import expected_wait_s
from berth.policies.objectives.protocol import Objective, Offer, Term


class Earliest(Objective):
    """Seconds from now to the end."""

    name = "earliest"
    superlative = "is predicted to finish first"
    comparative = "sooner"
    grows = True
    waits = True

    def score(self, offer: Offer) -> float | None:
        """See Objective."""
        runtime_s = offer.runtime_s.mid
        return runtime_s + expected_wait_s(offer.resources, runtime_s, offer.state)

    def terms(self, offer: Offer) -> tuple[Term, ...]:
        """See Objective."""
        runtime_s = offer.runtime_s.mid
        wait_s = expected_wait_s(offer.resources, runtime_s, offer.state)
        return (Term("predicted time", runtime_s, "s"), Term("expected wait", wait_s, "s"))
