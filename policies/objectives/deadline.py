"""The objective ``deadline``: the cheapest candidate that meets the job's deadline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from berth.policies.objectives.protocol import (
    ALIKE,
    WHERE_SENT,
    JobEstimate,
    Objective,
    Scored,
    ScoreTerm,
    cost_terms,
)
from berth.policies.objectives.time_and_cost import length_of, wait_of
from berth.policies.settings import PolicySettings, Weights
from berth.policies.values import Candidate

LATE = 1e12
"""Factor on the score of a late candidate, so that it ranks after every candidate in time."""
UNPRICED = 1e9
"""Factor on the score of a candidate without a price, so that it ranks after those with a price."""


class Deadline(Objective):
    """Choose the cheapest candidate that meets the job's deadline; if none does, the least late
    one.

    A candidate meets the deadline where expected wait + upper predicted time is within it; for an
    array, the last task must end within it. The deadline is the job's own, else the site's multiple
    of the job's time limit, counted from submission. A job without either always meets it.
    """

    name = "deadline"
    superlative = "is predicted to meet the deadline best"
    waits = True

    def __init__(self, weights: Weights) -> None:
        self._limits: float | None = None

    @classmethod
    def of(cls, settings: PolicySettings, candidates: Sequence[Candidate]) -> Self:
        """Return the objective for a site, with the site's multiple of time limits as default
        deadline.
        """
        objective = cls(settings.weights)
        objective._limits = settings.deadline_limits
        return objective

    def score(self, estimate: JobEstimate) -> float | None:
        """Return the cost; late candidates get larger scores than all others, by how late they are.

        Candidates in time but without a price rank between the two.
        """
        finish_s = _upper_s(estimate) + wait_of(estimate)
        within_s = self._within_s(estimate)
        if within_s is not None and finish_s > within_s:
            return LATE * finish_s / within_s
        return (
            UNPRICED * finish_s / (within_s or finish_s) if estimate.cost is None else estimate.cost
        )

    def compared(self, best: Scored, other: Scored) -> str:
        """Return the clause on what sets two places apart: deadline, price, cost or time."""
        is_late, is_sent = best.score >= LATE, other.place == WHERE_SENT
        if other.score >= LATE and not is_late:
            late = "would miss the deadline"
            return f"; it {late} {other.place}" if is_sent else f"; {other.place} {late}"
        if not is_late and best.cost is not None and other.cost is None:
            none = f"; there is no price {other.place}"
            return none if is_sent else f"; {other.place} has no price"
        if other.score / best.score < ALIKE:
            return f", about the same as {other.place}"
        more = "sooner" if is_late or best.cost is None else "cheaper"
        return f", {other.score / best.score:.1f} times{other.interval} {more} than {other.place}"

    @staticmethod
    def score_text(score: float, cost: float | None) -> str:
        """Return the cost, or why the candidate ranks behind those with one."""
        if score >= LATE:
            return f"late: {score / LATE:.3g} times the deadline"
        return "no price" if cost is None else f"{score:.4g}"

    def terms(self, estimate: JobEstimate) -> tuple[ScoreTerm, ...]:
        """Return the upper predicted time, wait, deadline, latest start and cost, for a person
        to read.
        """
        times = (
            ScoreTerm("upper predicted time", _upper_s(estimate), "s"),
            ScoreTerm("expected wait", wait_of(estimate), "s"),
        )
        within_s = self._within_s(estimate)
        if within_s is None:
            return (*times, *cost_terms(estimate))
        latest_s = max(0.0, within_s - _upper_s(estimate))
        bounds = (ScoreTerm("deadline", within_s, "s"), ScoreTerm("latest start", latest_s, "s"))
        return (*times, *bounds, *cost_terms(estimate))

    def _within_s(self, estimate: JobEstimate) -> float | None:
        """Return the seconds from submission to the deadline; None: the job has no deadline."""
        request = estimate.request
        if request is None:
            return None
        if request.needs.finish_within_s is not None:
            return request.needs.finish_within_s
        limit_s = request.time_limit_s
        return None if self._limits is None or limit_s is None else self._limits * limit_s


def _upper_s(estimate: JobEstimate) -> float:
    """Return the upper predicted run time in seconds; for an array, that of all its tasks,
    without wait.
    """
    time = estimate.runtime_s
    if estimate.makespan is None or time.mid <= 0:
        return time.high
    return length_of(estimate) * time.high / time.mid
