"""The objective ``least-carbon``: least emission, that is energy x carbon intensity during the
run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from berth.pilot.errors import UsageError
from berth.policies.codes import Code
from berth.policies.objectives.energy import carbon_g, energy_of, energy_terms, intensity_of
from berth.policies.objectives.protocol import NO_CARBON, NO_ENERGY, Estimate, Objective, Term
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate


class LeastCarbon(Objective):
    """Choose the candidate with the fewest grams of CO2 equivalent."""

    name = "least-carbon"
    superlative = "is predicted to emit least carbon"
    comparative = "less carbon"
    missing = NO_CARBON
    live = True

    @classmethod
    def of(cls, settings: PolicySettings, candidates: Sequence[Candidate]) -> Self:
        """Return the objective for this site. Raises UsageError if no candidate has a carbon
        intensity.
        """
        if candidates and all(candidate.carbon is None for candidate in candidates):
            raise UsageError(
                f"the objective {cls.name!r} needs the carbon intensity of the electricity",
                hint="energy.carbon_g_per_kwh or energy.carbon_file in the site file",
            )
        return cls(settings.weights)

    def score(self, estimate: Estimate) -> float | None:
        """Return the job's predicted grams of CO2 equivalent; None: power or carbon intensity is
        unknown.
        """
        energy = energy_of(estimate)
        return None if energy is None else carbon_g(estimate, energy)

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """Return the predicted time, energy and carbon intensity, for a person to read."""
        mean = intensity_of(estimate)
        intensity = () if mean is None else (Term("carbon intensity then", mean, "g/kWh"),)
        return (
            Term("predicted time", estimate.runtime_s.mid, "s"),
            *energy_terms(estimate),
            *intensity,
        )

    def why_missing(self, estimate: Estimate) -> tuple[Code, str]:
        """Return the code and sentence of the missing number: the energy, or else the carbon
        intensity.
        """
        return NO_ENERGY if energy_of(estimate) is None else NO_CARBON
