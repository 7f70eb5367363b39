"""The objective ``earliest``: earliest predicted end, whatever the site's weight of waiting."""

from __future__ import annotations

from berth.policies.objectives.costs import length_of, wait_of
from berth.policies.objectives.protocol import Estimate, Objective, Term, time_terms


class Earliest(Objective):
    """Choose the candidate with the smallest expected wait + predicted run time, in seconds."""

    name = "earliest"
    superlative = "is predicted to finish first"
    comparative = "sooner"
    by_time = True
    waits = True

    def score(self, estimate: Estimate) -> float | None:
        """Return the expected wait + predicted run time (of all tasks, for an array), in
        seconds.
        """
        return length_of(estimate) + wait_of(estimate)

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """Return the predicted run time and the expected wait in seconds, for a person to read."""
        if estimate.makespan is not None:
            return time_terms(estimate)
        predicted = Term("predicted time", estimate.runtime_s.mid, "s")
        return (predicted, Term("expected wait", wait_of(estimate), "s"))
