"""Baseline objectives from the literature, for comparison with Berth's own objectives.

They are registered like other objectives (``berth.objectives``), so that replays and a daemon in
shadow mode decide with the production code. A site file in advise or enforce mode refuses them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Self

from berth.pilot.errors import UsageError
from berth.policies.codes import Code
from berth.policies.objectives.costs import expected_wait_s
from berth.policies.objectives.protocol import Estimate, Objective, Term
from berth.policies.settings import PolicySettings, Weights
from berth.policies.values import Candidate

UNKNOWN_S = 3600.0
"""Assumed run time in seconds of a job without a time limit."""
_TIE = 1e-6


class HeterogeneityBlind(Objective):
    """Choose the candidate that can start the job first, as if all hardware were equally fast.

    The score is the time limit plus the expected wait, which is all that a scheduler uses that
    ignores
    hardware differences. Ties are broken by a pseudo-random number from the time and the user.
    """

    name = "heterogeneity-blind"
    superlative = "is expected to start it first"
    comparative = "sooner"
    waits = True
    live = True
    baseline = True

    def score(self, estimate: Estimate) -> float | None:
        """Return time limit + expected wait in seconds, with a tiny pseudo-random part that
        breaks ties.
        """
        user = "" if estimate.request is None else estimate.request.user
        text = f"{estimate.now_s!r} {user} {estimate.candidate.name}".encode()
        drawn = int.from_bytes(hashlib.blake2b(text, digest_size=4).digest(), "big") / 2**32
        return sum(_parts(estimate)) * (1 + _TIE * drawn)

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """Return the time limit and the expected wait in seconds, for a person to read."""
        limit_s, wait_s = _parts(estimate)
        return (Term("time limit", limit_s, "s"), Term("expected wait", wait_s, "s"))


def _parts(estimate: Estimate) -> tuple[float, float]:
    limit_s = None if estimate.request is None else estimate.request.time_limit_s
    length_s = limit_s or UNKNOWN_S
    return length_s, expected_wait_s(estimate.resources, length_s, estimate.state)


class RandomPlace(Objective):
    """Choose any candidate that fits, with equal probability.

    The pseudo-random number depends on turn, time, user and candidate, so equal runs give equal
    results.
    """

    name = "random"
    superlative = "is drawn by lot"
    live = True
    turns = True
    baseline = True

    def score(self, estimate: Estimate) -> float | None:
        """Return a pseudo-random number between 0 and 1, equally distributed."""
        user = "" if estimate.request is None else estimate.request.user
        text = f"{estimate.turn} {estimate.now_s!r} {user} {estimate.candidate.name}".encode()
        drawn = int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "big")
        return (drawn + 1) / 2**48

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """Return the pseudo-random number of the score, for a person to read."""
        return (Term("lot", self.score(estimate) or 0.0, ""),)


class RoundRobin(Objective):
    """Choose the candidates in turn, by name.

    The score is the candidate's distance from the present turn, starting at 1.
    """

    name = "round-robin"
    superlative = "is next in turn"
    live = True
    turns = True
    baseline = True

    def __init__(self, weights: Weights) -> None:
        self._index: dict[str, int] = {}

    @classmethod
    def of(cls, settings: PolicySettings, candidates: Sequence[Candidate]) -> Self:
        """Return the objective for a site, with the position of each candidate in the order of
        names.
        """
        objective = cls(settings.weights)
        objective._index = {candidate.name: i for i, candidate in enumerate(candidates)}
        return objective

    def score(self, estimate: Estimate) -> float | None:
        """Return the candidate's distance from the present turn, from 1 (next) to the number of
        candidates.
        """
        index = self._index.get(estimate.candidate.name, 0)
        return 1.0 + (index - estimate.turn) % max(1, len(self._index))

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """Return the candidate's distance from the present turn, for a person to read."""
        return (Term("places until its turn", self.score(estimate) or 0.0, ""),)


class StaticBest(Objective):
    """Choose the first candidate of ``policy.order`` that fits; candidates not in the order get
    no jobs.
    """

    name = "static-best"
    superlative = "is the first of the site's order that fits"
    missing = (Code.NOT_CHOSEN, "it is not in the site file's policy.order")
    baseline = True

    def __init__(self, weights: Weights) -> None:
        self._rank: dict[str, float] = {}

    @classmethod
    def of(cls, settings: PolicySettings, candidates: Sequence[Candidate]) -> Self:
        """Return the objective for this site's ``policy.order``.

        Raises UsageError where the order is empty or names an unknown candidate.
        """
        if not settings.order:
            raise UsageError(
                f"the objective {cls.name!r} needs policy.order",
                hint="name the places, best first",
            )
        unknown = sorted(set(settings.order) - {candidate.name for candidate in candidates})
        if unknown:
            raise UsageError(f"policy.order: there is no candidate {unknown[0]!r}")
        objective = cls(settings.weights)
        objective._rank = {name: 1.0 + i for i, name in enumerate(settings.order)}
        return objective

    def score(self, estimate: Estimate) -> float | None:
        """Return the candidate's position in ``policy.order``, from 1; None: it is not in the
        order.
        """
        return self._rank.get(estimate.candidate.name)

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """Return the candidate's position in ``policy.order``, for a person to read."""
        return (Term("place in the order", self._rank.get(estimate.candidate.name, 0.0), ""),)


class UserChoice(Objective):
    """Choose the queue that the user named, as without Berth; a job without a queue is left
    alone.
    """

    name = "user-choice"
    superlative = "is what the user chose"
    missing = (Code.NOT_CHOSEN, "the job does not name its queue")
    baseline = True

    def score(self, estimate: Estimate) -> float | None:
        """Return 1 for a candidate in the queue that the user named, else None."""
        named = None if estimate.request is None else estimate.request.queue
        return 1.0 if named == estimate.candidate.queue else None

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """Return one Term, which says that the user named the queue."""
        return (Term("named by the user", 1.0, ""),)
