"""Where the user wanted it: what happens without Berth."""

from __future__ import annotations

from berth.policies.codes import Code
from berth.policies.objectives.protocol import Objective, Offer, Term


class UserChoice(Objective):
    """Only places in the queue that the job names; a job that names none is left alone."""

    name = "user-choice"
    superlative = "is what the user chose"
    missing = (Code.NOT_CHOSEN, "the job does not name its queue")
    baseline = True

    def score(self, offer: Offer) -> float | None:
        """See Objective."""
        named = None if offer.request is None else offer.request.queue
        return 1.0 if named == offer.candidate.queue else None

    def terms(self, offer: Offer) -> tuple[Term, ...]:
        """See Objective."""
        return (Term("named by the user", 1.0, ""),)
