"""Split-conformal intervals on the log of time, from kernels that nothing was fitted on.

With scores ``s = |log(measured / predicted)| / difficulty`` of held-out rows, ``[t e^(-q d),
t e^(q d)]`` holds a new row's time with probability ``level`` if ``q`` is the
``ceil((n + 1) level)``-th smallest score (Vovk, Gammerman, Shafer 2005; Lei et al. 2018).
Rows of one kernel resemble each other, so each kernel has the same weight in all and ``n``
counts kernels: the quantile is of the mixture over kernels (the hierarchical form of Lee,
Barber, Willett, "Distribution-free inference with hierarchical data", 2023).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from berth.pilot.errors import UsageError
from berth.predictor.core.prediction import Interval

LEVEL = 0.9
"""Nominal coverage of every interval."""
NORMAL_90 = 1.6449
"""Half width of a normal distribution's interval of that coverage, in standard deviations."""
MAX_LOG_WIDTH = math.log(1e6)


DIFFICULTY_FLOOR = 0.5
"""Difficulty of a row that the residual leaves alone, in units of log time."""


def difficulty(correction: float) -> float:
    """Return how hard a row is: the more the learnt residual had to change, the less is known.

    ``correction`` is the log ratio of the prediction with and without the residual. Scores are
    divided by this, so that intervals are narrow where the roofline alone is believed.
    """
    return DIFFICULTY_FLOOR + abs(correction)


def group_quantile(scores: Sequence[float], groups: Sequence[str], level: float = LEVEL) -> float:
    """Return the score that a new group's row stays under with probability ``level``.

    Raises UsageError where there are too few groups for a finite answer.
    """
    names = sorted(set(groups))
    needed = math.ceil(level / (1 - level) - 1e-9)
    if len(names) < needed:
        raise UsageError(
            f"{len(names)} groups are too few for a {level:.0%} interval",
            hint=f"at least {needed} kernels are needed",
        )
    weight = {name: 1.0 / sum(1 for g in groups if g == name) for name in names}
    # The new group's own row is counted as if it were infinitely far off.
    wanted = level * (len(names) + 1)
    reached = 0.0
    for score, group in sorted(zip(scores, groups, strict=True)):
        reached += weight[group]
        if reached >= wanted - 1e-9:
            return float(score)
    return float(max(scores))


def around(mid: float, log_width: float) -> Interval:
    """Return ``mid`` with a factor ``exp(log_width)`` to both sides."""
    factor = math.exp(min(max(log_width, 0.0), MAX_LOG_WIDTH))
    return Interval(mid / factor, mid, mid * factor)
