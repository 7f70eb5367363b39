"""Combine predictions of several model families into one, and keep better hardware from being
predicted slower.

Each source's error is the half width of its own 90 % interval in log time, as measured on held-out
data in the same situation (for example, an unseen application). The weights minimise the variance
of the combined log time, with correlated errors between any two sources, because sources were
trained on the same data (Bates and Granger, "The combination of forecasts", 1969). A measurement is
used alone. A source that abstains is used only where all sources abstain.

A platform that is at least as good as another in every respect is not predicted slower (dominance).
Predictions are moved as little as possible, in log time and with wide intervals moved most, until
they agree with this partial order (isotonic regression; Dykstra's projections: Boyle and Dykstra,
1986). Predictions that already agree are unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from berth.predictor.core.forecast import SourceShare
from berth.predictor.core.intervals import NORMAL_90, around
from berth.predictor.core.prediction import Basis, Interval

SHARED_ERROR = 0.3
"""Correlation of two sources' errors; averaging does not reduce this common part."""
LEAST_LOG_WIDTH = 0.01
"""Least half width of an interval in log time."""


@dataclass(frozen=True, slots=True)
class SourceEstimate:
    """The time that one model family (source) predicts for a workload on one platform with given
    resources."""

    source: str
    seconds: Interval
    basis: Basis
    situation: str = ""
    """Situation in which the source's error was measured, for example ``unseen family``."""
    abstained: str | None = None
    """Reason why the source does not vouch for its number; None: it does."""
    own_log_width: float | None = None
    """Half width in log of the error that other platforms do not share; None: all of it is the
    platform's own."""

    @property
    def log_width(self) -> float:
        """Return half the width of the source's 90 % interval in natural log of time."""
        return max(self.seconds.log_width, LEAST_LOG_WIDTH)

    @property
    def own_share(self) -> float:
        """Return the part of ``log_width`` that is the platform's own error, 0 to 1."""
        return 1.0 if self.own_log_width is None else min(1.0, self.own_log_width / self.log_width)


@dataclass(frozen=True, slots=True)
class Combined:
    """A combined prediction with the weights of its sources."""

    seconds: Interval
    basis: Basis
    shares: tuple[SourceShare, ...]
    abstained: str | None
    own_log_width: float | None = None
    """Half width in log of the error that other platforms do not share; None: all of it."""


def combine(estimates: Sequence[SourceEstimate]) -> Combined:
    """Return the weighted mean, in log time, of the predictions of one or more sources."""
    ordered = sorted(estimates, key=lambda estimate: (estimate.basis.rank, estimate.source))
    used = [estimate for estimate in ordered if estimate.abstained is None] or ordered
    if used[0].basis is Basis.MEASURED:
        used = [estimate for estimate in used if estimate.basis is Basis.MEASURED][:1]
    if len(used) == 1:
        (only,) = used
        share = SourceShare(only.source, 1.0, only.log_width, only.situation)
        return Combined(only.seconds, only.basis, (share,), only.abstained, only.own_log_width)
    deviations = [estimate.log_width / NORMAL_90 for estimate in used]
    weights = _weights(deviations)
    logs = [math.log(estimate.seconds.mid) for estimate in used]
    mid = sum(w * log for w, log in zip(weights, logs, strict=True))
    apart = sum(w * (log - mid) ** 2 for w, log in zip(weights, logs, strict=True))
    variance = _variance(weights, deviations) + apart
    shares = sorted(
        (
            SourceShare(estimate.source, weight, estimate.log_width, estimate.situation)
            for estimate, weight in zip(used, weights, strict=True)
            if weight > 0
        ),
        key=lambda share: (-share.weight, share.source),
    )
    half_width = NORMAL_90 * math.sqrt(variance)
    known = any(estimate.own_log_width is not None for estimate in used)
    own = sum(w * estimate.own_share for w, estimate in zip(weights, used, strict=True))
    return Combined(
        around(math.exp(mid), half_width),
        min((estimate.basis for estimate in used), key=lambda basis: basis.rank),
        tuple(shares),
        used[0].abstained,
        own * half_width if known else None,
    )


def _weights(deviations: Sequence[float]) -> list[float]:
    """Return the weight of each source that minimises the variance of the combined log time.

    The errors of any two sources have the correlation ``SHARED_ERROR``. Weights are at least 0 and
    sum to 1. A source whose interval is more than ``1 / SHARED_ERROR`` times as wide as the best
    source's gets weight 0.
    """
    used = list(range(len(deviations)))
    while True:
        sure = [1 / deviations[n] for n in used]
        shared = SHARED_ERROR * sum(sure) / (1 + (len(used) - 1) * SHARED_ERROR)
        raw = [precision * (precision - shared) for precision in sure]
        if min(raw) > 0 or len(used) == 1:
            break
        used = [n for n, weight in zip(used, raw, strict=True) if weight > 0]
    whole = sum(raw)
    by_source = dict(zip(used, raw, strict=True))
    return [by_source.get(n, 0.0) / whole for n in range(len(deviations))]


def _variance(weights: Sequence[float], deviations: Sequence[float]) -> float:
    parts = [w * d for w, d in zip(weights, deviations, strict=True)]
    own = sum(part**2 for part in parts)
    return (1 - SHARED_ERROR) * own + SHARED_ERROR * sum(parts) ** 2


_SWEEPS = 500
_AGREED = 1e-9
"""Difference of log times up to which a pair counts as in the right order."""


def ordered(times: Mapping[str, Interval], pairs: Iterable[tuple[str, str]]) -> dict[str, Interval]:
    """Return ``times`` by platform, changed so that in each pair (better, worse) of ``pairs`` the
    better platform is not slower.

    Pairs with a platform that has no time are left out. Each interval is scaled together with its
    middle.
    """
    known = sorted({(a, b) for a, b in pairs if a in times and b in times and a != b})
    logs = {name: math.log(interval.mid) for name, interval in times.items()}
    width = {name: max(interval.log_width, LEAST_LOG_WIDTH) for name, interval in times.items()}
    moved = _projected(logs, {name: interval**2 for name, interval in width.items()}, known)
    return {
        name: interval
        if moved[name] == logs[name]
        else interval.scaled(math.exp(moved[name] - logs[name]))
        for name, interval in times.items()
    }


def _projected(
    logs: Mapping[str, float], variance: Mapping[str, float], pairs: list[tuple[str, str]]
) -> dict[str, float]:
    """Return log times moved as little as possible until every pair (better, worse) is in order."""
    moved = dict(logs)
    pushed = dict.fromkeys(pairs, 0.0)
    for _ in range(_SWEEPS):
        if all(moved[a] - moved[b] <= _AGREED for a, b in pairs):
            break
        for pair in pairs:
            a, b = pair
            both = variance[a] + variance[b]
            above = moved[a] - moved[b] + pushed[pair] * both
            push = max(above / both, 0.0)
            moved[a] -= (push - pushed[pair]) * variance[a]
            moved[b] += (push - pushed[pair]) * variance[b]
            pushed[pair] = push
    _exact(moved, pairs)
    return moved


def _exact(logs: dict[str, float], pairs: list[tuple[str, str]]) -> None:
    """Raise a worse platform's time to the better platform's where rounding left it below."""
    for _ in range(len(logs)):
        wrong = [(a, b) for a, b in pairs if logs[a] > logs[b]]
        if not wrong:
            return
        for a, b in wrong:
            logs[b] = max(logs[a], logs[b])
