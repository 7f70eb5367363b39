"""The smallest predicted energy of what the job holds."""

from __future__ import annotations

from berth.policies.objectives.energy import energy_of, energy_terms
from berth.policies.objectives.protocol import NO_ENERGY, Estimate, Objective, Term


class LeastEnergy(Objective):
    """Fewest joules."""

    name = "least-energy"
    superlative = "is predicted to need least energy"
    comparative = "less energy"
    missing = NO_ENERGY

    def score(self, estimate: Estimate) -> float | None:
        """See Objective."""
        energy = energy_of(estimate)
        return None if energy is None else energy.joules

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """See Objective."""
        return (Term("predicted time", estimate.runtime_s.mid, "s"), *energy_terms(estimate))
