"""Compare a tuned policy with today's on weeks that no trial has seen: differences with
intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from berth.policies.settings import PolicySettings
from berth.policies.tuning.differences import PolicyDifference, block_s_of, differences
from berth.policies.tuning.figures import METRICS, ReplayFigures, TracePart, TuningMetric
from berth.policies.tuning.needed import Elimination
from berth.policies.tuning.parameters import settings_with
from berth.policies.tuning.study import Tried, Tuned

if TYPE_CHECKING:
    from berth.policies.tuning.trace_replayer import TraceReplayer

WORSE = 0.01
"""Largest relative worsening of a metric against today's policy on the training weeks."""
_NO_EFFECT = (
    "No setting changes a metric by more than chance on the training weeks, and so on the test "
    "weeks: keep today's."
)


@dataclass(frozen=True)
class Judgement:
    """The recommended policy, and the comparison with today's policy that supports it."""

    test: TracePart
    today: ReplayFigures
    recommended: Tried | None
    """The trial that was compared on the test weeks; None: no trial was better in training."""
    policy: PolicySettings
    figures: ReplayFigures
    differences: tuple[PolicyDifference, ...]
    """Differences of the recommended trial; empty: no trial is recommended."""
    block_s: float
    """Length in seconds of the blocks from which the intervals are computed."""
    reason: str
    """The reason in one sentence."""
    others: tuple[PolicyDifference, ...] = ()
    """Differences of the metrics that the tune did not optimise."""
    dropped: tuple[str, ...] = ()
    """Names of the picked trial's settings that stay at today's values, because going back to them
    made no metric worse beyond chance."""

    @property
    def shown(self) -> bool:
        """Return whether the policy is significantly better in a metric, worse in none, and kills
        no more jobs."""
        return (
            any(difference.better for difference in self.differences)
            and not any(difference.worse for difference in self.differences)
            and self.figures.killed <= self.today.killed
        )


def pick(tuned: Tuned) -> Tried | None:
    """Return the front's trial with the largest mean gain over today's policy; None: no trial
    gains.

    No metric of the trial may be worse than today's by more than ``WORSE``, and it may not kill
    more jobs.
    """
    today = tuned.today
    if today is None:
        return None

    def gain(trial: Tried) -> float:
        return float(np.mean([1 - s / t if t else 0.0 for s, t in _pairs(trial, today)]))

    able = [
        trial
        for trial in tuned.front
        if all(s <= (1 + WORSE) * t for s, t in _pairs(trial, today))
        and trial.killed <= today.killed
    ]
    best = max(able, key=lambda trial: (gain(trial), -trial.number), default=None)
    return None if best is None or gain(best) <= 0 else best


def judge(
    tuned: Tuned,
    replayer: TraceReplayer,
    today: PolicySettings,
    metrics: Sequence[TuningMetric],
    *,
    train: TracePart,
    test: TracePart,
) -> Judgement:
    """Return how the picked trial, without the settings that change nothing, compares with today's
    policy on the test weeks.

    All weeks are replayed, so that the test weeks begin with the queue that each policy leaves.
    """
    replays = Elimination(replayer, today, metrics, train, test)
    before = replays.replayed({})
    now = before.within(test)
    kept = Judgement(test, now, None, today, now, (), block_s_of(replayer.span_s), "")
    best = pick(tuned)
    if best is None or tuned.today is None:
        return replace(kept, reason=_none_better(tuned))
    values = replays.needed(best.values, tuned.today.values)
    dropped = tuple(
        name for name in best.values if name not in values and name in tuned.today.values
    )
    if not values:
        return replace(kept, reason=_NO_EFFECT, dropped=dropped)
    after = replays.replayed(values)
    then = after.within(test)
    other_metrics = [
        metric
        for metric in METRICS.values()
        if metric not in metrics and _finite(metric, now, then)
    ]
    judgement = replace(
        kept,
        recommended=replace(best, values=values),
        policy=settings_with(today, values),
        figures=then,
        differences=differences(before, after, metrics, test),
        others=differences(before, after, other_metrics, test),
        dropped=dropped,
    )
    return replace(judgement, reason=_reason(judgement))


def _none_better(tuned: Tuned) -> str:
    today = tuned.today
    better = [
        trial
        for trial in tuned.front
        if today is not None and any(s < t for s, t in _pairs(trial, today))
    ]
    if today is None or not better:
        return "No trial was better than today's policy on the training weeks: keep it."
    if all(trial.killed > today.killed for trial in better):
        return (
            "On the training weeks every trial that was better had more jobs killed by their time "
            "limit: keep today's."
        )
    return (
        "On the training weeks every trial that was better in one metric was worse in another, or "
        "had more jobs killed by their time limit: keep today's, or tune for fewer metrics."
    )


def _finite(metric: TuningMetric, *replays: ReplayFigures) -> bool:
    return all(math.isfinite(metric.of(replay)) for replay in replays)


def _pairs(trial: Tried, today: Tried) -> list[tuple[float, float]]:
    return list(zip(trial.scores, today.scores, strict=True))


def _reason(judgement: Judgement) -> str:
    if judgement.figures.killed > judgement.today.killed:
        more = judgement.figures.killed - judgement.today.killed
        return f"On the test weeks {more} more jobs are killed by their time limit: keep today's."
    worse = [difference.metric.title for difference in judgement.differences if difference.worse]
    if worse:
        return f"On the test weeks the {worse[0]} is worse: keep today's."
    if not all(difference.known for difference in judgement.differences):
        return "The test weeks hold less than two days of jobs, too few to judge by: keep today's."
    if not judgement.shown:
        return "On the test weeks no difference is larger than chance: keep today's."
    gains = ", ".join(
        f"{each.metric.title} {each.change:+.1%} ({each.low:+.1%} to {each.high:+.1%})"
        for each in judgement.differences
    )
    return f"On the test weeks: {gains}."
