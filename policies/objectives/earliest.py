"""The earliest predicted end: wait and run, whatever the site's weight of waiting."""

from __future__ import annotations

from berth.policies.objectives.costs import length_of, wait_of
from berth.policies.objectives.protocol import Estimate, Objective, Term, time_terms


class Earliest(Objective):
    """Smallest number of seconds from now to the end."""

    name = "earliest"
    superlative = "is predicted to finish first"
    comparative = "sooner"
    waits = True

    def score(self, estimate: Estimate) -> float | None:
        """See Objective."""
        return length_of(estimate) + wait_of(estimate)

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """See Objective."""
        if estimate.makespan is not None:
            return time_terms(estimate)
        predicted = Term("predicted time", estimate.runtime_s.mid, "s")
        return (predicted, Term("expected wait", wait_of(estimate), "s"))
