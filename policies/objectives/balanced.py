"""The objective ``balanced``: weighs time, cost and energy, each with an exponent."""

from __future__ import annotations

from berth.policies.codes import Code
from berth.policies.objectives.energy import energy_of, energy_terms
from berth.policies.objectives.protocol import (
    NO_ENERGY,
    NO_PRICE,
    JobEstimate,
    Objective,
    ScoreTerm,
    cost_terms,
    time_terms,
)
from berth.policies.settings import Weights


class Balanced(Objective):
    """Choose the candidate with the smallest product time**w_t x cost**w_c x energy**w_e.

        w_t, w_c, w_e  exponents ``[policy.weights]`` time, cost and energy
        time           predicted time with weighted wait, in seconds
        cost           in the site's currency
        energy         in joules

    A number whose exponent is 0 may be unknown.
    """

    name = "balanced"
    superlative = "is predicted the best balance of time and cost"
    missing = NO_PRICE
    weights = ("time", "cost", "energy", "wait")

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def score(self, estimate: JobEstimate) -> float | None:
        """Return the weighted product of time, cost and energy; None: the cost or energy is
        unknown.
        """
        weights, cost = self._weights, estimate.cost
        if cost is None:
            if weights.cost:
                return None
            cost = 1.0
        score = estimate.time_s**weights.time * cost**weights.cost
        if not weights.energy:
            return float(score)
        energy = energy_of(estimate)
        return None if energy is None else float(score * energy.joules**weights.energy)

    def terms(self, estimate: JobEstimate) -> tuple[ScoreTerm, ...]:
        """Return the predicted time, cost, energy and their exponents, for a person to read."""
        exponents: tuple[ScoreTerm, ...] = (
            ScoreTerm("exponent of the time", self._weights.time, ""),
            ScoreTerm("exponent of the cost", self._weights.cost, ""),
        )
        energy: tuple[ScoreTerm, ...] = ()
        if self._weights.energy:
            energy = energy_terms(estimate)
            exponents += (ScoreTerm("exponent of the energy", self._weights.energy, ""),)
        return (*time_terms(estimate), *cost_terms(estimate), *energy, *exponents)

    def why_missing(self, estimate: JobEstimate) -> tuple[Code, str]:
        """Return the code and sentence of the missing number: the price, or else the energy."""
        return NO_PRICE if self._weights.cost and estimate.cost is None else NO_ENERGY
