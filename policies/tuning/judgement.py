"""Compare a tuned policy with today's on weeks that no trial has seen: differences with
intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.policies.settings import PolicySettings
from berth.policies.tuning.parameters import settings_with
from berth.policies.tuning.replayer import METRICS, Figures, Metric, Part, Replayer
from berth.policies.tuning.study import Tried, Tuned

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
LEAST_BLOCKS = 4
RESAMPLES = 500
WORSE = 0.01
"""Largest relative worsening of a metric against today's policy on the training weeks."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric under today's and the tuned policy, with the relative change and its 95 %
    interval.
    """

    metric: Metric
    today: float
    then: float
    change: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Return whether the interval is finite: there were at least two blocks of days."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def better(self) -> bool:
        """Return whether the whole interval is below zero, that is, the metric improves."""
        return self.high < 0

    @property
    def worse(self) -> bool:
        """Return whether the whole interval is above zero, that is, the metric worsens."""
        return self.low > 0


@dataclass(frozen=True)
class Judgement:
    """The recommended policy, and the comparison with today's policy that supports it."""

    test: Part
    today: Figures
    recommended: Tried | None
    """The trial that was compared on the test weeks; None: no trial was better in training."""
    policy: PolicySettings
    figures: Figures
    differences: tuple[Difference, ...]
    """Differences of the recommended trial; empty: no trial is recommended."""
    block_s: float
    """Length in seconds of the blocks that the bootstrap resamples."""
    reason: str
    """The reason in one sentence."""
    others: tuple[Difference, ...] = ()
    """Differences of the metrics that the tune did not optimise."""

    @property
    def shown(self) -> bool:
        """Return whether the policy is significantly better in a metric, worse in none, and
        kills no more jobs.
        """
        return (
            any(difference.better for difference in self.differences)
            and not any(difference.worse for difference in self.differences)
            and self.figures.killed <= self.today.killed
        )


def pick(tuned: Tuned) -> Tried | None:
    """Return the front's trial with the largest mean gain over today's policy; None: no trial
    gains.

    No metric of the trial may be worse than today's by more than ``WORSE``, and it may not kill
    more
    jobs.
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
    replayer: Replayer,
    today: PolicySettings,
    metrics: Sequence[Metric],
    test: Part,
    *,
    seed: int = 0,
) -> Judgement:
    """Return how the picked trial compares with today's policy on the test weeks."""
    before = replayer.replay(today, test)
    best = pick(tuned)
    if best is None:
        return Judgement(test, before, None, today, before, (), 0.0, _none_better(tuned))
    policy = settings_with(today, best.values)
    after = replayer.cut(replayer.slicing.with_values(best.values)).replay(policy, test)
    block_s = WEEK_S if (test.end_s - test.begin_s) >= LEAST_BLOCKS * WEEK_S else DAY_S
    own_differences = differences(before, after, metrics, block_s, seed=seed)
    other_metrics = [
        metric
        for metric in METRICS.values()
        if metric not in metrics and _finite(metric, before, after)
    ]
    others = differences(before, after, other_metrics, block_s, seed=seed)
    judgement = Judgement(test, before, best, policy, after, own_differences, block_s, "", others)
    return replace(judgement, reason=_reason(judgement))


def differences(
    before: Figures,
    after: Figures,
    metrics: Sequence[Metric],
    block_s: float,
    *,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[Difference, ...]:
    """Return the metrics' differences between two replays, with block-bootstrap intervals
    (Künsch 1989).

    Blocks are times of submission; the same blocks are drawn for both replays. With one block
    only, the
    intervals are infinite.
    """
    blocks = [(figures.submit_s // block_s).astype(np.int64) for figures in (before, after)]
    names = np.unique(np.concatenate(blocks))
    rows = [
        [np.flatnonzero(own == name) for name in names]
        for own in blocks
    ]  # fmt: skip
    random = np.random.default_rng(seed)
    drawn: list[list[float]] = []
    for _ in range(RESAMPLES if len(names) > 1 else 0):
        chosen = random.integers(0, len(names), len(names))
        pair = [
            figures.rows(np.concatenate([own[i] for i in chosen]))
            for figures, own in zip((before, after), rows, strict=True)
        ]
        drawn.append([_change(m.of(pair[0]), m.of(pair[1])) for m in metrics])
    ends = (1 - level) / 2
    compared = []
    for index, metric in enumerate(metrics):
        now, then = metric.of(before), metric.of(after)
        change = _change(now, then)
        low, high = -math.inf, math.inf
        if drawn:
            column = np.array([row[index] for row in drawn])
            low, high = (float(np.nanquantile(column, end)) for end in (ends, 1 - ends))
        compared.append(Difference(metric, now, then, change, min(low, change), max(high, change)))
    return tuple(compared)


def _none_better(tuned: Tuned) -> str:
    """Return the sentence on why no trial was compared on the test weeks."""
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


def _finite(metric: Metric, *replays: Figures) -> bool:
    return all(math.isfinite(metric.of(replay)) for replay in replays)


def _change(now: float, then: float) -> float:
    return then / now - 1 if now else float(then > 0)


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
