"""The place that is best on average, for every job alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from berth.pilot.errors import UsageError
from berth.policies.codes import Code
from berth.policies.objectives.protocol import Objective, Offer, Term
from berth.policies.settings import PolicySettings, Weights
from berth.policies.values import Candidate


class StaticBest(Objective):
    """The first place of ``policy.order`` that fits; places that are not in it get no jobs."""

    name = "static-best"
    superlative = "is the first of the site's order that fits"
    missing = (Code.NOT_CHOSEN, "it is not in the site file's policy.order")
    baseline = True

    def __init__(self, weights: Weights) -> None:
        self._rank: dict[str, float] = {}

    @classmethod
    def of(cls, settings: PolicySettings, candidates: Sequence[Candidate]) -> Self:
        """See Objective. Raises UsageError without an order, or for a name that is no place."""
        if not settings.order:
            raise UsageError(
                f"the objective {cls.name!r} needs policy.order",
                hint="name the places, best first",
            )
        unknown = sorted(set(settings.order) - {candidate.name for candidate in candidates})
        if unknown:
            raise UsageError(f"policy.order: there is no candidate {unknown[0]!r}")
        made = cls(settings.weights)
        made._rank = {name: 1.0 + i for i, name in enumerate(settings.order)}
        return made

    def score(self, offer: Offer) -> float | None:
        """See Objective."""
        return self._rank.get(offer.candidate.name)

    def terms(self, offer: Offer) -> tuple[Term, ...]:
        """See Objective."""
        return (Term("place in the order", self._rank.get(offer.candidate.name, 0.0), ""),)
