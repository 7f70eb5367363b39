"""What an objective is: one number for each candidate that passed, smaller is better.

An objective sees Estimates and nothing else. It is made once for a site and asked for every
candidate of every job, so ``score`` does arithmetic only. A minimal one::

    class Shortest(Objective):
        name = "shortest"
        superlative = "has the smallest upper time"
        def score(self, estimate: Estimate) -> float | None: return estimate.runtime_s.high
        def terms(self, estimate: Estimate) -> tuple[Term, ...]:
            return (Term("upper predicted time", estimate.runtime_s.high, "s"),)
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


class Estimate(NamedTuple):
    """What is predicted and known of one job on one candidate: all that a score may look at."""

    candidate: Candidate
    resources: Resources
    runtime_s: Interval
    time_s: float
    """The predicted time, with the expected wait as the site weighs it; for an array, until its
    last task ends."""
    cost: float | None
    """Cost in the site's currency, for an array each task's; None: the site file gives no price."""
    memory: MemoryUse | None
    prediction: Prediction
    """The grid point that the numbers come from: energy, basis, bound."""
    request: Request | None = None
    """The request; who asks is looked at by ``live`` objectives only."""
    state: CandidateState | None = None
    """The candidate's present state; None: not known, or not looked at yet."""
    now_s: float = 0.0
    """Unix time of the decision, for ``live`` objectives; 0: not known."""
    turn: int = 0
    """The number of decisions made before this one, for objectives that take ``turns``."""
    work: float = 1.0
    """For an array: the times of all tasks together, over that of the longest."""
    makespan: Makespan | None = None
    """For an array, at present; None: one job, or not looked at yet."""


class Term(NamedTuple):
    """One part of a score."""

    name: str
    value: float
    unit: str


class Objective(Protocol):
    """What the chosen candidate is best at. An entry point of ``berth.objectives`` names the class.

    Whether a candidate has a score at all may depend on what was asked, the site file and the
    prediction, never on the state or the moment.
    """

    name: ClassVar[str]
    """The name in the site file and for ``--policy``."""
    superlative: ClassVar[str]
    """Words of the sentence for the user: ``h200 (...) is predicted fastest: ...``."""
    comparative: ClassVar[str] = "better"
    """Its other words: ``2.0 times faster than ...``."""
    missing: ClassVar[tuple[Code, str]] = (
        Code.NO_SCORE,
        "the objective needs a number that is not known for it",
    )
    """Why a candidate without a score is ruled out."""
    waits: ClassVar[bool] = False
    """The score needs the candidate's state (the expected wait), however the site weighs
    waiting."""
    live: ClassVar[bool] = False
    """The score needs who asks, the moment or the turn: it is made anew for every decision."""
    turns: ClassVar[bool] = False
    """The score changes with each decision made before; such objectives are ``live``."""
    baseline: ClassVar[bool] = False
    """Something to compare with, not a way to run a site: the site file takes it in no mode in
    which jobs are changed."""

    def __init__(self, weights: Weights) -> None:
        """Take the weights of ``[policy.weights]``, for objectives that have any."""

    @classmethod
    def of(cls, settings: PolicySettings, candidates: Sequence[Candidate]) -> Self:
        """Return the objective of a site. ``candidates``: all of them, by name.

        Raises UsageError where the site file lacks what it needs.
        """
        return cls(settings.weights)

    @abstractmethod
    def score(self, estimate: Estimate) -> float | None:
        """Return the score, above zero, smaller is better; None: it cannot be computed."""
        ...

    @abstractmethod
    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """Return what the score is made of, for a person to read."""
        ...

    def why_missing(self, estimate: Estimate) -> tuple[Code, str]:
        """Return why this candidate has no score, for objectives that need several numbers."""
        return self.missing


def time_terms(estimate: Estimate) -> tuple[Term, ...]:
    """Return the predicted time, and the expected wait where the site counts it."""
    if estimate.makespan is not None:
        return array_terms(estimate.makespan, estimate.runtime_s.mid)
    predicted = Term("predicted time", estimate.runtime_s.mid, "s")
    waiting = estimate.time_s - estimate.runtime_s.mid
    return (predicted, Term("expected wait, weighted", waiting, "s")) if waiting else (predicted,)


def array_terms(makespan: Makespan, runtime_s: float) -> tuple[Term, ...]:
    """Return how the time until the last task ends comes about. ``runtime_s``: of the longest
    task."""
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


def cost_terms(estimate: Estimate) -> tuple[Term, ...]:
    """Return price x time of what the job holds; none where there is no price."""
    name = "cost" if estimate.makespan is None else "cost of a task"
    return () if estimate.cost is None else (Term(name, estimate.cost, CURRENCY),)


NO_PRICE = (Code.NO_PRICE, "the site file gives no price for it")
NO_ENERGY = (
    Code.NO_ENERGY,
    "its energy is not known: no prediction says, and the site file gives no power",
)
NO_CARBON = (Code.NO_CARBON, "the site file gives no carbon intensity for it")
