"""One place after the other, in order of name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from berth.policies.objectives.protocol import Objective, Offer, Term
from berth.policies.settings import PolicySettings, Weights
from berth.policies.values import Candidate


class RoundRobin(Objective):
    """The next place of the circle that fits: its distance from the turn, from 1."""

    name = "round-robin"
    superlative = "is next in turn"
    live = True
    turns = True
    baseline = True

    def __init__(self, weights: Weights) -> None:
        self._index: dict[str, int] = {}

    @classmethod
    def of(cls, settings: PolicySettings, candidates: Sequence[Candidate]) -> Self:
        """See Objective."""
        made = cls(settings.weights)
        made._index = {candidate.name: i for i, candidate in enumerate(candidates)}
        return made

    def score(self, offer: Offer) -> float | None:
        """See Objective."""
        index = self._index.get(offer.candidate.name, 0)
        return 1.0 + (index - offer.turn) % max(1, len(self._index))

    def terms(self, offer: Offer) -> tuple[Term, ...]:
        """See Objective."""
        return (Term("places until its turn", self.score(offer) or 0.0, ""),)
