"""The place that is free first, as if every job ran equally long everywhere."""

from __future__ import annotations

import hashlib

from berth.policies.objectives.costs import expected_wait_s
from berth.policies.objectives.protocol import Objective, Offer, Term

UNKNOWN_S = 3600.0
"""The length of a job that names no time limit."""
_TIE = 1e-6


class HeterogeneityBlind(Objective):
    """Expected wait and time limit: what a scheduler knows that does not tell hardware apart.

    Places that are alike in these are drawn by lot, which follows from the moment and the user.
    """

    name = "heterogeneity-blind"
    superlative = "is expected to start it first"
    comparative = "sooner"
    waits = True
    live = True
    baseline = True

    def score(self, offer: Offer) -> float | None:
        """See Objective."""
        user = "" if offer.request is None else offer.request.user
        text = f"{offer.now_s!r} {user} {offer.candidate.name}".encode()
        drawn = int.from_bytes(hashlib.blake2b(text, digest_size=4).digest(), "big") / 2**32
        return sum(_parts(offer)) * (1 + _TIE * drawn)

    def terms(self, offer: Offer) -> tuple[Term, ...]:
        """See Objective."""
        limit_s, wait_s = _parts(offer)
        return (Term("time limit", limit_s, "s"), Term("expected wait", wait_s, "s"))


def _parts(offer: Offer) -> tuple[float, float]:
    limit_s = None if offer.request is None else offer.request.time_limit_s
    length_s = limit_s or UNKNOWN_S
    return length_s, expected_wait_s(offer.resources, length_s, offer.state)
