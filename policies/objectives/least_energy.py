"""The smallest predicted energy of what the job holds."""

from __future__ import annotations

from berth.policies.objectives.energy import energy_of, energy_terms
from berth.policies.objectives.protocol import NO_ENERGY, Objective, Offer, Term


class LeastEnergy(Objective):
    """Joules."""

    name = "least-energy"
    superlative = "is predicted to need least energy"
    comparative = "less energy"
    grows = True
    missing = NO_ENERGY

    def score(self, offer: Offer) -> float | None:
        """See Objective."""
        found = energy_of(offer)
        return None if found is None else found.joules

    def terms(self, offer: Offer) -> tuple[Term, ...]:
        """See Objective."""
        return (Term("predicted time", offer.runtime_s.mid, "s"), *energy_terms(offer))
