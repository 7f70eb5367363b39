"""Combination: several predictions of one workload on one platform become one, in log time.

Each source has the error that it showed on held-out data in the situation at hand, as the half
width of its own 90 % interval. Weights are those of least variance where the errors of any two
sources go together, as of sources that saw the same data (Bates and Granger, "The combination of
forecasts", 1969). A measurement is taken alone; a source that abstains counts only where all do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from berth.predictor.core.forecast import SourceShare
from berth.predictor.core.intervals import NORMAL_90, around
from berth.predictor.core.prediction import Basis, Interval

SHARED_ERROR = 0.3
"""Correlation of two sources' errors: what they have in common is not averaged away."""
LEAST_LOG_WIDTH = 0.01


@dataclass(frozen=True, slots=True)
class SourceEstimate:
    """One source's time for one workload on one platform with given resources."""

    source: str
    seconds: Interval
    basis: Basis
    situation: str = ""
    abstained: str | None = None

    @property
    def log_width(self) -> float:
        """Half width of the 90 % interval in log."""
        return max(math.log(self.seconds.high / self.seconds.mid), LEAST_LOG_WIDTH)


@dataclass(frozen=True, slots=True)
class Combined:
    """The one prediction, and what it is from."""

    seconds: Interval
    basis: Basis
    shares: tuple[SourceShare, ...]
    abstained: str | None


def combine(estimates: Sequence[SourceEstimate]) -> Combined:
    """The combination of at least one estimate. The order given does not matter."""
    ordered = sorted(estimates, key=lambda one: (one.basis.rank, one.source))
    used = [one for one in ordered if one.abstained is None] or ordered
    if used[0].basis is Basis.MEASURED:
        used = [one for one in used if one.basis is Basis.MEASURED][:1]
    if len(used) == 1:
        (only,) = used
        share = SourceShare(only.source, 1.0, only.log_width, only.situation)
        return Combined(only.seconds, only.basis, (share,), only.abstained)
    deviations = [one.log_width / NORMAL_90 for one in used]
    weights = _weights(deviations)
    logs = [math.log(one.seconds.mid) for one in used]
    mid = sum(w * log for w, log in zip(weights, logs, strict=True))
    apart = sum(w * (log - mid) ** 2 for w, log in zip(weights, logs, strict=True))
    variance = _variance(weights, deviations) + apart
    shares = sorted(
        (
            SourceShare(one.source, weight, one.log_width, one.situation)
            for one, weight in zip(used, weights, strict=True)
            if weight > 0
        ),
        key=lambda share: (-share.weight, share.source),
    )
    return Combined(
        around(math.exp(mid), NORMAL_90 * math.sqrt(variance)),
        min((one.basis for one in used), key=lambda basis: basis.rank),
        tuple(shares),
        used[0].abstained,
    )


def _weights(deviations: Sequence[float]) -> list[float]:
    """Of least variance with ``SHARED_ERROR`` between any two, none below 0; they add up to 1.

    A source beyond ``1 / SHARED_ERROR`` times as wide as the best one gets nothing: what it does
    not share is lost in what it errs.
    """
    used = list(range(len(deviations)))
    while True:
        sure = [1 / deviations[n] for n in used]
        shared = SHARED_ERROR * sum(sure) / (1 + (len(used) - 1) * SHARED_ERROR)
        raw = [one * (one - shared) for one in sure]
        if min(raw) > 0 or len(used) == 1:
            break
        used = [n for n, weight in zip(used, raw, strict=True) if weight > 0]
    whole = sum(raw)
    found = dict(zip(used, raw, strict=True))
    return [found.get(n, 0.0) / whole for n in range(len(deviations))]


def _variance(weights: Sequence[float], deviations: Sequence[float]) -> float:
    """Of the weighted mean, with ``SHARED_ERROR`` between any two."""
    parts = [w * d for w, d in zip(weights, deviations, strict=True)]
    own = sum(part**2 for part in parts)
    return (1 - SHARED_ERROR) * own + SHARED_ERROR * sum(parts) ** 2
