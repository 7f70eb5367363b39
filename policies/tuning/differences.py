"""Differences of metrics between two replays of the same jobs, with bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.policies.tuning.replayer import Figures, Metric, Part

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
LEAST_BLOCKS = 4
"""Least number of weeks for which the bootstrap resamples weeks, and not days."""
RESAMPLES = 500


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric under today's and the tuned policy, with the relative change and its 95 %
    interval."""

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


def block_s_of(part: Part) -> float:
    """Return the length of the blocks (s) that the bootstrap of a part resamples."""
    return WEEK_S if (part.end_s - part.begin_s) >= LEAST_BLOCKS * WEEK_S else DAY_S


def differences(
    before: Figures,
    after: Figures,
    metrics: Sequence[Metric],
    block_s: float,
    *,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[Difference, ...]:
    """Return the metrics' differences between two replays, with block-bootstrap intervals (Künsch
    1989).

    Blocks are times of submission; the same blocks are drawn for both replays. With one block only,
    the intervals are infinite.
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


def _change(now: float, then: float) -> float:
    return then / now - 1 if now else float(then > 0)
