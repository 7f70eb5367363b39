"""The objective ``least-energy``: least predicted energy of the job's resources."""

from __future__ import annotations

from berth.policies.objectives.energy import energy_of, energy_terms
from berth.policies.objectives.protocol import NO_ENERGY, Estimate, Objective, Term


class LeastEnergy(Objective):
    """Choose the candidate with the least predicted energy in joules."""

    name = "least-energy"
    superlative = "is predicted to need least energy"
    comparative = "less energy"
    missing = NO_ENERGY

    def score(self, estimate: Estimate) -> float | None:
        """Return the job's predicted energy in joules; None: no power is known."""
        energy = energy_of(estimate)
        return None if energy is None else energy.joules

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """Return the predicted time, mean power and energy, for a person to read."""
        return (Term("predicted time", estimate.runtime_s.mid, "s"), *energy_terms(estimate))
