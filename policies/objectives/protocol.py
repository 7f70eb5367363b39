"""What an objective is: one number for each place that passed, smaller is better.

An objective sees Offers and nothing else. It is made once for a site and asked for every place of
every job, so ``score`` does arithmetic only. A minimal one::

    class Shortest(Objective):
        name = "shortest"
        superlative = "has the smallest upper time"
        def score(self, offer: Offer) -> float | None: return offer.runtime_s.high
        def terms(self, offer: Offer) -> tuple[Term, ...]:
            return (Term("upper predicted time", offer.runtime_s.high, "s"),)
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple, Protocol

from berth.policies.codes import Code
from berth.policies.settings import Weights
from berth.policies.values import Candidate, Resources
from berth.predictor.core.prediction import Interval, Prediction

CURRENCY = "currency"
"""The unit of a Term in the site's currency."""


class Offer(NamedTuple):
    """What one place offers a job."""

    candidate: Candidate
    resources: Resources
    runtime_s: Interval
    time_s: float
    """The predicted time, with the expected wait as the site weighs it."""
    cost: float | None
    """In the site's currency; None: the site file gives no price."""
    memory_bytes: Interval | None
    prediction: Prediction
    """The grid point that the numbers come from: energy, basis, bound."""


class Term(NamedTuple):
    """One part of a score."""

    name: str
    value: float
    unit: str


class Objective(Protocol):
    """What the chosen place is best at. An entry point of ``berth.objectives`` names the class."""

    name: ClassVar[str]
    """In the site file and for ``--policy``."""
    superlative: ClassVar[str]
    """In the sentence for the user: ``h200 (...) is predicted fastest: ...``."""
    comparative: ClassVar[str] = "better"
    """There, too: ``2.0 times faster than ...``."""
    missing: ClassVar[tuple[Code, str]] = (
        Code.NO_SCORE,
        "the objective needs a number that is not known for it",
    )
    """Why a place without a score is ruled out."""

    def __init__(self, weights: Weights) -> None:
        """``weights``: of ``[policy.weights]``, for objectives that have any."""

    @abstractmethod
    def score(self, offer: Offer) -> float | None:
        """Smaller is better, above zero; None: it cannot be computed."""
        ...

    @abstractmethod
    def terms(self, offer: Offer) -> tuple[Term, ...]:
        """What the score is made of, for a person to read."""
        ...


def time_terms(offer: Offer) -> tuple[Term, ...]:
    """The predicted time, and the expected wait where the site counts it."""
    predicted = Term("predicted time", offer.runtime_s.mid, "s")
    waiting = offer.time_s - offer.runtime_s.mid
    return (predicted, Term("expected wait, weighted", waiting, "s")) if waiting else (predicted,)


def cost_terms(offer: Offer) -> tuple[Term, ...]:
    """Price x time of what the job holds; none where there is no price."""
    return () if offer.cost is None else (Term("cost", offer.cost, CURRENCY),)


NO_PRICE = (Code.NO_PRICE, "the site file gives no price for it")
