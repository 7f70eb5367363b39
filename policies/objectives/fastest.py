"""The objective ``fastest``: least predicted run time with weighted expected wait."""

from __future__ import annotations

from berth.policies.objectives.protocol import Estimate, Objective, Term, time_terms


class Fastest(Objective):
    """Choose the candidate with the smallest predicted run time + weight of waiting x expected
    wait.
    """

    name = "fastest"
    superlative = "is predicted fastest"
    comparative = "faster"
    by_time = True

    def score(self, estimate: Estimate) -> float | None:
        """Return the predicted run time + weight of waiting x expected wait, in seconds."""
        return estimate.time_s

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """Return the predicted run time and the weighted wait in seconds, for a person to read."""
        return time_terms(estimate)
