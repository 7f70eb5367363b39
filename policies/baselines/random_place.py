"""Any place that fits, with equal probability."""

from __future__ import annotations

import hashlib

from berth.policies.objectives.protocol import Objective, Offer, Term


class RandomPlace(Objective):
    """The draw follows from the turn, the moment, the user and the place: equal runs are equal."""

    name = "random"
    superlative = "is drawn by lot"
    live = True
    turns = True
    baseline = True

    def score(self, offer: Offer) -> float | None:
        """See Objective."""
        user = "" if offer.request is None else offer.request.user
        text = f"{offer.turn} {offer.now_s!r} {user} {offer.candidate.name}".encode()
        drawn = int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "big")
        return (drawn + 1) / 2**48

    def terms(self, offer: Offer) -> tuple[Term, ...]:
        """See Objective."""
        return (Term("lot", self.score(offer) or 0.0, ""),)
