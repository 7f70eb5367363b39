"""The interface of an objective: it scores each suitable candidate, and the smallest score wins.

An objective reads only JobEstimates. It is created once for a site and called for every candidate
of every job, so ``score`` should do arithmetic only. A minimal objective::

    class Shortest(Objective):
        name = "shortest"
        superlative = "has the smallest upper time"
        def score(self, estimate: JobEstimate) -> float | None: return estimate.runtime_s.high
        def terms(self, estimate: JobEstimate) -> tuple[ScoreTerm, ...]:
            return (ScoreTerm("upper predicted time", estimate.runtime_s.high, "s"),)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol, Self

from berth.policies.codes import Code
from berth.policies.settings import PolicySettings, Weights
from berth.policies.values import Candidate, CandidateState, Makespan, Request, Resources
from berth.predictor.core.prediction import Interval, MemoryUse, Prediction

ALIKE = 1.05
"""Scores whose ratio is below this are said to be about the same."""
WHERE_SENT = "where you sent it"
CURRENCY = "currency"
"""The unit of a ScoreTerm that is an amount in the site's currency."""


class JobEstimate(NamedTuple):
    """The predictions and facts about one job on one candidate: all that a score may read."""

    candidate: Candidate
    resources: Resources
    runtime_s: Interval
    time_s: float
    """The predicted time in seconds plus the expected wait x the site's weight of waiting.

    For an array: the makespan.
    """
    cost: float | None
    """Cost in the site's currency, for an array per task; None: the site file gives no price."""
    memory: MemoryUse | None
    prediction: Prediction
    """The grid point that the numbers come from, with energy, basis and bottleneck."""
    request: Request | None = None
    """The request; its user is not to be read."""
    state: CandidateState | None = None
    """The candidate's present state; None: not known, or not read yet."""
    work: float = 1.0
    """For an array: sum of the run times of all tasks divided by the longest; 1: a single job."""
    makespan: Makespan | None = None
    """For an array: the makespan by the present state; None: a single job, or not computed yet."""


class ScoreTerm(NamedTuple):
    """One part of a score: its name, value and unit, for a person to read."""

    name: str
    value: float
    unit: str


class Scored(NamedTuple):
    """A score with what its sentence needs."""

    score: float
    cost: float | None
    """Cost in the site's currency; None: the site file gives no price."""
    place: str
    """The candidate's name, or ``where you sent it``."""
    interval: str = ""
    """The interval of its ratio to the best score, such as `` (1.4 to 1.8)``; empty: none."""


class Objective(Protocol):
    """A rule that scores candidates; an entry point in the group ``berth.objectives`` names its
    class.

    Whether a candidate has a score may depend on the request, the site file and the prediction,
    never on the state, the user or the time.
    """

    name: ClassVar[str]
    """The name in the site file and for ``--policy``."""
    superlative: ClassVar[str]
    """Words for the best candidate in the user's sentence: ``h200 (...) is predicted fastest:
    ...``."""
    comparative: ClassVar[str] = "better"
    """Words for the comparison in the user's sentence: ``2.0 times faster than ...``."""
    missing: ClassVar[tuple[Code, str]] = (
        Code.NO_SCORE,
        "the objective needs a number that is not known for it",
    )
    """Code and sentence that rule out a candidate without a score."""
    weights: ClassVar[tuple[str, ...]] = ()
    """Names of the weights of ``[policy.weights]`` that the score depends on."""
    waits: ClassVar[bool] = False
    """True: the score uses the expected wait, whatever the site's weight of waiting."""
    by_time: ClassVar[bool] = False
    """True: the score is a time, so that a faster place of which nothing is predicted may precede
    the best one in a job's list of queues, and one that may start the job sooner may follow it."""

    def __init__(self, weights: Weights) -> None:
        """Store the weights of ``[policy.weights]``, for objectives that use them."""

    @classmethod
    def of(cls, settings: PolicySettings, candidates: Sequence[Candidate]) -> Self:
        """Return the objective for a site. ``candidates``: all candidates, sorted by name.

        Raises UsageError where the site file lacks a setting that the objective needs.
        """
        return cls(settings.weights)

    @abstractmethod
    def score(self, estimate: JobEstimate) -> float | None:
        """Return the candidate's score, greater than 0; smaller is better. None: a needed number
        is missing.
        """
        ...

    @abstractmethod
    def terms(self, estimate: JobEstimate) -> tuple[ScoreTerm, ...]:
        """Return the parts of the score, for a person to read."""
        ...

    def compared(self, best: Scored, other: Scored) -> str:
        """Return the clause on how the best score compares with another: ``, 2.0 times faster than
        old``.

        An objective whose score is not one quantity says here what sets two scores apart.
        """
        ratio = other.score / best.score
        if ratio < ALIKE:
            return f", about the same as {other.place}"
        return f", {ratio:.1f} times{other.interval} {self.comparative} than {other.place}"

    @staticmethod
    def score_text(score: float, cost: float | None) -> str:  # noqa: ARG004 - deadline's
        """Return a score as text; ``cost`` as in ``Scored``."""
        return f"{score:.4g}"

    def why_missing(self, estimate: JobEstimate) -> tuple[Code, str]:
        """Return code and sentence for a candidate without a score (default: ``missing``)."""
        return self.missing


def time_terms(estimate: JobEstimate) -> tuple[ScoreTerm, ...]:
    """Return the predicted time, and the expected wait if the site weights waits, as ScoreTerms."""
    if estimate.makespan is not None:
        return array_terms(estimate.makespan, estimate.runtime_s.mid)
    predicted = ScoreTerm("predicted time", estimate.runtime_s.mid, "s")
    waiting = estimate.time_s - estimate.runtime_s.mid
    return (
        (predicted, ScoreTerm("expected wait, weighted", waiting, "s")) if waiting else (predicted,)
    )


def array_terms(makespan: Makespan, runtime_s: float) -> tuple[ScoreTerm, ...]:
    """Return the parts of an array's makespan as ScoreTerms; ``runtime_s``: run time of the longest
    task.
    """
    tasks, at_once, wait_s, seconds, work = makespan
    unequal = (ScoreTerm("times of all over the longest", work, ""),) if makespan.unequal else ()
    waiting = (ScoreTerm("expected wait", wait_s, "s"),) if wait_s else ()
    return (
        ScoreTerm("predicted time of a task", runtime_s, "s"),
        ScoreTerm("tasks", tasks, ""),
        *unequal,
        ScoreTerm("of them at a time", at_once, ""),
        *waiting,
        ScoreTerm("until the last one ends", seconds, "s"),
    )


def cost_terms(estimate: JobEstimate) -> tuple[ScoreTerm, ...]:
    """Return the cost as a ScoreTerm; empty where the site file gives no price."""
    name = "cost" if estimate.makespan is None else "cost of a task"
    return () if estimate.cost is None else (ScoreTerm(name, estimate.cost, CURRENCY),)


NO_PRICE = (Code.NO_PRICE, "the site file gives no price for it")
NO_ENERGY = (
    Code.NO_ENERGY,
    "its energy is not known: no prediction says, and the site file gives no power",
)
