"""Combination: several predictions of a workload become one, and agree with the order of hardware.

Each source has the error that it showed on held-out data in the situation at hand, as the half
width of its own 90 % interval, in log time. Weights are those of least variance where the errors of
any two sources go together, as of sources that saw the same data (Bates and Granger, "The
combination of forecasts", 1969). A measurement is taken alone; a source that abstains counts only
where all do.

A platform at least as good in every respect is not predicted slower (dominance). Predictions are
moved as little as possible, in log time and weighed by how sure they are, until they agree with the
order (isotonic regression on a partial order; Dykstra's projections: Boyle and Dykstra, 1986).
Predictions that agree already stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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


_SWEEPS = 500
_AGREED = 1e-9
_LEAST_LOG_WIDTH = 0.01


def ordered(times: Mapping[str, Interval], pairs: Iterable[tuple[str, str]]) -> dict[str, Interval]:
    """``times`` by platform, for each of ``pairs`` (better, worse) the better one not slower.

    Pairs with a platform that has no time are left out. Intervals move with their middles.
    """
    known = sorted({(a, b) for a, b in pairs if a in times and b in times and a != b})
    logs = {name: math.log(one.mid) for name, one in times.items()}
    width = {
        name: max(math.log(one.high / one.mid), _LEAST_LOG_WIDTH) for name, one in times.items()
    }
    moved = _projected(logs, {name: one**2 for name, one in width.items()}, known)
    return {
        name: one if moved[name] == logs[name] else one.scaled(math.exp(moved[name] - logs[name]))
        for name, one in times.items()
    }


def _projected(
    logs: Mapping[str, float], variance: Mapping[str, float], pairs: list[tuple[str, str]]
) -> dict[str, float]:
    found = dict(logs)
    pushed = dict.fromkeys(pairs, 0.0)
    for _ in range(_SWEEPS):
        if all(found[a] - found[b] <= _AGREED for a, b in pairs):
            break
        for pair in pairs:
            a, b = pair
            both = variance[a] + variance[b]
            above = found[a] - found[b] + pushed[pair] * both
            push = max(above / both, 0.0)
            found[a] -= (push - pushed[pair]) * variance[a]
            found[b] += (push - pushed[pair]) * variance[b]
            pushed[pair] = push
    _exact(found, pairs)
    return found


def _exact(found: dict[str, float], pairs: list[tuple[str, str]]) -> None:
    """What rounding has left: the worse one is raised to the better one's time."""
    for _ in range(len(found)):
        wrong = [(a, b) for a, b in pairs if found[a] > found[b]]
        if not wrong:
            return
        for a, b in wrong:
            found[b] = max(found[a], found[b])
