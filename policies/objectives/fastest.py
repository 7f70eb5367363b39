"""The objective ``fastest``: least predicted run time with weighted expected wait."""

from __future__ import annotations

from berth.policies.objectives.protocol import Estimate, Objective, Term, time_terms


class Fastest(Objective):
    """Choose the smallest predicted run time + weight of waiting x expected wait, in seconds."""

    name = "fastest"
    superlative = "is predicted fastest"
    comparative = "faster"

    def score(self, estimate: Estimate) -> float | None:
        """Return the score; smaller is better (see ``Objective.score``)."""
        return estimate.time_s

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """Return the parts of the score (see ``Objective.terms``)."""
        return time_terms(estimate)
