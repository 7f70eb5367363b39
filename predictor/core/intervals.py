"""Split-conformal intervals of log time, calibrated on held-out kernels.

Scores are ``s = |log(measured / predicted)| / difficulty`` of held-out rows; ``d`` is the
difficulty of a new row and ``t`` its predicted time. Then ``[t e^(-q d), t e^(q d)]`` contains the
new row's time with probability ``level`` if ``q`` is the ``ceil((n + 1) level)``-th smallest score
(Vovk, Gammerman, Shafer 2005; Lei et al. 2018). Rows of one kernel resemble each other, so each
kernel has the same total weight and ``n`` counts kernels: the quantile is of the mixture over
kernels (the hierarchical form of Lee, Barber, Willett, "Distribution-free inference with
hierarchical data", 2023).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from berth.pilot.errors import UsageError
from berth.predictor.core.prediction import Interval

LEVEL = 0.9
"""Nominal coverage of every interval."""
NORMAL_90 = 1.6449
"""Half width of the 90 % interval of a normal distribution, in standard deviations."""
MAX_LOG_WIDTH = math.log(1e6)
"""Largest half width of an interval in natural log: a factor of a million."""


_Z_95 = 1.96
"""Half width of the 95 % interval of a normal distribution, in standard deviations."""


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Return Wilson's score interval (1927) of the share ``hits / count``, at 95 %."""
    share, z2 = hits / count, _Z_95**2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z_95 * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2)) / (1 + z2 / count)
    return max(0.0, middle - half), min(1.0, middle + half)


DIFFICULTY_FLOOR = 0.5
"""Difficulty, in units of log time, of a row whose prediction the residual model does not
change."""


def difficulty(correction: float) -> float:
    """Return the difficulty of a workload, by which the log error is divided: ``DIFFICULTY_FLOOR +
    |correction|``.

    ``correction``: log ratio of the prediction with the residual model to the one without.
    Intervals are therefore narrow where the residual model changes little.
    """
    return DIFFICULTY_FLOOR + abs(correction)


def group_quantile(scores: Sequence[float], groups: Sequence[str], level: float = LEVEL) -> float:
    """Return the score (scaled error) that a row of a new group stays below with probability
    ``level``.

    All groups, for example kernels, have the same weight. Raises UsageError where there are too few
    groups for a finite quantile.
    """
    names = sorted(set(groups))
    needed = math.ceil(level / (1 - level) - 1e-9)
    if len(names) < needed:
        raise UsageError(
            f"{len(names)} groups are too few for a {level:.0%} interval",
            hint=f"at least {needed} kernels are needed",
        )
    weight = {name: 1.0 / sum(1 for g in groups if g == name) for name in names}
    # The new group's own score counts as infinite.
    wanted = level * (len(names) + 1)
    reached = 0.0
    for score, group in sorted(zip(scores, groups, strict=True)):
        reached += weight[group]
        if reached >= wanted - 1e-9:
            return float(score)
    return float(max(scores))


def around(mid: float, log_width: float) -> Interval:
    """Return the interval from ``mid / exp(log_width)`` to ``mid * exp(log_width)``."""
    factor = math.exp(min(max(log_width, 0.0), MAX_LOG_WIDTH))
    return Interval(mid / factor, mid, mid * factor)
