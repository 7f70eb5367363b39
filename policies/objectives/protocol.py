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
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol, Self

from berth.policies.codes import Code
from berth.policies.settings import PolicySettings, Weights
from berth.policies.values import Candidate, CandidateState, Makespan, Request, Resources
from berth.predictor.core.prediction import Interval, MemoryUse, Prediction

CURRENCY = "currency"
"""The unit of a Term in the site's currency."""


class Offer(NamedTuple):
    """What one place offers a job."""

    candidate: Candidate
    resources: Resources
    runtime_s: Interval
    time_s: float
    """The predicted time, with the expected wait as the site weighs it; of an array, until its last
    task ends."""
    cost: float | None
    """In the site's currency, of an array each task's; None: the site file gives no price."""
    memory: MemoryUse | None
    prediction: Prediction
    """The grid point that the numbers come from: energy, basis, bound."""
    request: Request | None = None
    """What was asked; who asks is looked at by ``live`` objectives only."""
    state: CandidateState | None = None
    """The place's present state; None: not known, or not looked at yet."""
    now_s: float = 0.0
    """Unix time of the decision, for ``live`` objectives; 0: not known."""
    turn: int = 0
    """How many decisions were made before this one, for objectives that take ``turns``."""
    work: float = 1.0
    """Of an array: the times of all tasks together, over that of the longest."""
    makespan: Makespan | None = None
    """Of an array, at present; None: one job, or not looked at yet."""


class Term(NamedTuple):
    """One part of a score."""

    name: str
    value: float
    unit: str


class Objective(Protocol):
    """What the chosen place is best at. An entry point of ``berth.objectives`` names the class.

    Whether a place has a score at all may depend on what was asked, the site file and the
    prediction, never on the state or the moment.
    """

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
    waits: ClassVar[bool] = False
    """The score needs the place's state (the expected wait), however the site weighs waiting."""
    live: ClassVar[bool] = False
    """The score needs who asks, the moment or the turn: it is made anew for every decision."""
    grows: ClassVar[bool] = False
    """A longer expected wait never makes the score smaller."""
    turns: ClassVar[bool] = False
    """It changes with each decision made before; such objectives are ``live``."""
    baseline: ClassVar[bool] = False
    """Something to compare with, not a way to run a site: the site file takes it in no mode in
    which jobs are changed."""

    def __init__(self, weights: Weights) -> None:
        """``weights``: of ``[policy.weights]``, for objectives that have any."""

    @classmethod
    def of(cls, settings: PolicySettings, candidates: Sequence[Candidate]) -> Self:
        """The objective of a site. ``candidates``: all of them, by name.

        Raises UsageError where the site file lacks what it needs.
        """
        return cls(settings.weights)

    @abstractmethod
    def score(self, offer: Offer) -> float | None:
        """Smaller is better, above zero; None: it cannot be computed."""
        ...

    @abstractmethod
    def terms(self, offer: Offer) -> tuple[Term, ...]:
        """What the score is made of, for a person to read."""
        ...

    def why_missing(self, offer: Offer) -> tuple[Code, str]:
        """Why this place has no score, for objectives that need several numbers."""
        return self.missing


def time_terms(offer: Offer) -> tuple[Term, ...]:
    """The predicted time, and the expected wait where the site counts it."""
    if offer.makespan is not None:
        return array_terms(offer.makespan, offer.runtime_s.mid)
    predicted = Term("predicted time", offer.runtime_s.mid, "s")
    waiting = offer.time_s - offer.runtime_s.mid
    return (predicted, Term("expected wait, weighted", waiting, "s")) if waiting else (predicted,)


def array_terms(makespan: Makespan, runtime_s: float) -> tuple[Term, ...]:
    """How the time until the last task ends comes about. ``runtime_s``: of the longest task."""
    tasks, at_once, wait_s, seconds, work = makespan
    unequal = (Term("times of all over the longest", work, ""),) if makespan.unequal else ()
    waiting = (Term("expected wait", wait_s, "s"),) if wait_s else ()
    return (
        Term("predicted time of a task", runtime_s, "s"),
        Term("tasks", tasks, ""),
        *unequal,
        Term("of them at a time", at_once, ""),
        *waiting,
        Term("until the last one ends", seconds, "s"),
    )


def cost_terms(offer: Offer) -> tuple[Term, ...]:
    """Price x time of what the job holds; none where there is no price."""
    name = "cost" if offer.makespan is None else "cost of a task"
    return () if offer.cost is None else (Term(name, offer.cost, CURRENCY),)


NO_PRICE = (Code.NO_PRICE, "the site file gives no price for it")
NO_ENERGY = (
    Code.NO_ENERGY,
    "its energy is not known: no prediction says, and the site file gives no power",
)
NO_CARBON = (Code.NO_CARBON, "the site file gives no carbon intensity for it")
