"""Dominance: a platform at least as good in every respect is not predicted slower.

Predictions are moved as little as possible, in log time and weighed by how sure they are, until
they agree with the order (isotonic regression on a partial order; Dykstra's projections: Boyle and
Dykstra, 1986). Predictions that agree already stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from berth.predictor.core.prediction import Interval

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
