"""The bars of relative performance on AIWC, and whether the shipped family meets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from berth.predictor.learning.relative.evaluation import Evaluation, Result
from berth.predictor.learning.relative.splits import (
    LEAVE_ONE_APPLICATION_OUT,
    NEW_COUNTERS,
    RANDOM_ROWS,
    UNSEEN_SIZE,
    Split,
)
from lab.datasets.aiwc import KINDS

SHIPPED = "law"
HEADER = ("split", "figure", "bar", "is", "")


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure that must be at most, or at least, so much."""

    split: Split
    figure: str
    bound: float
    at_most: bool

    def met(self, value: float) -> bool:
        """Whether ``value``, unrounded, is on the right side."""
        return value <= self.bound if self.at_most else value >= self.bound


BARS = (
    Bar(LEAVE_ONE_APPLICATION_OUT, "regret", 1.12, at_most=True),
    Bar(LEAVE_ONE_APPLICATION_OUT, "worst_regret", 1.5, at_most=True),
    Bar(LEAVE_ONE_APPLICATION_OUT, "kendall_tau", 0.75, at_most=False),
    Bar(LEAVE_ONE_APPLICATION_OUT, "median_time_error", 0.60, at_most=True),
    Bar(LEAVE_ONE_APPLICATION_OUT, "median_speedup_error", 0.60, at_most=True),
    Bar(UNSEEN_SIZE, "r2_log_speedup", 0.95, at_most=False),
    Bar(UNSEEN_SIZE, "regret", 1.03, at_most=True),
    Bar(NEW_COUNTERS, "r2_log_speedup", 0.95, at_most=False),
    Bar(NEW_COUNTERS, "regret", 1.03, at_most=True),
    Bar(RANDOM_ROWS, "r2_log_speedup", 0.95, at_most=False),
    Bar(RANDOM_ROWS, "order_of_four", 0.91, at_most=False),
    Bar(RANDOM_ROWS, "pairs_right", 0.95, at_most=False),
)


def verdicts_of(found: Evaluation) -> list[tuple[str, ...]]:
    """``verdicts`` of an evaluation; none where it is of other platforms than AIWC's."""
    return verdicts(found.results) if set(found.platforms) == set(KINDS) else []


def verdicts(results: Sequence[Result], family: str = SHIPPED) -> list[tuple[str, ...]]:
    """One row a bar that ``family`` was evaluated for, in the order of ``HEADER``."""
    found = {result.split: result.figures for result in results if result.family == family}
    return [
        (
            bar.split.name,
            bar.figure,
            f"{'<=' if bar.at_most else '>='} {bar.bound:g}",
            f"{found[bar.split.name][bar.figure]:.4f}",
            "met" if bar.met(found[bar.split.name][bar.figure]) else "missed",
        )
        for bar in BARS
        if bar.figure in found.get(bar.split.name, {})
    ]
