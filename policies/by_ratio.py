"""Narrow the places of a job by how many times longer it takes on one than on another.

Such ratios are often known well where the job's own time is not: how long the next job takes
depends on its input, on every place alike. A place is left out only if the job very likely ends
later there: by the lower end of the ratio's interval, by a cautious guess of the job's time, and
with the waits that are expected of both places. Where the place's own wait was not simulated, the
job is assumed to start there at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from berth.policies.codes import Code
from berth.policies.constraints import Exclusion
from berth.policies.fit import Fit
from berth.policies.settings import PolicySettings
from berth.policies.values import CandidateState, Ranked


def is_known(ranked: Ranked, settings: PolicySettings) -> bool:
    """Return whether the candidate can be compared with others by its predicted time."""
    return ranked.runtime_s is not None and not settings.too_wide(ranked.ratio_log_width)


class Place(NamedTuple):
    """A candidate with its prediction and its expected wait."""

    ranked: Ranked
    wait_s: float
    is_simulated: bool
    """Whether the wait comes from a simulation of the queue (``CandidateState.waits``)."""


def ends_later(place: Place, best: Place) -> bool:
    """Return whether a job very likely ends later on ``place`` than on ``best``."""
    time, best_time = place.ranked.runtime_s, best.ranked.runtime_s
    half_width = math.hypot(place.ranked.ratio_log_width, best.ranked.ratio_log_width)
    if time is None or best_time is None or math.isinf(half_width):
        return False
    least_ratio = time.mid / best_time.mid * math.exp(-half_width)
    short_s = math.sqrt(best_time.low * best_time.mid)
    wait_s = place.wait_s if place.is_simulated else 0.0
    return wait_s + short_s * (least_ratio - 1.0) > best.wait_s


def slower_of(
    fits: Sequence[Fit],
    known: Mapping[str, Ranked],
    states: Mapping[str, CandidateState],
    settings: PolicySettings,
) -> dict[str, Exclusion]:
    """Return the candidates where the job very likely ends later than on the best, by name, with
    the reason.

    ``known``: what is predicted of the candidates, by name.
    """
    compared = {
        name: place_of(ranked, fit.wait_s, states.get(name))
        for fit in fits
        if (ranked := known.get(name := fit.candidate.name)) is not None
        and is_known(ranked, settings)
        and not ranked.guess
    }
    if not compared:
        return {}
    best = min(compared.values(), key=lambda place: place.wait_s + _length_s(place.ranked))
    return {
        name: Exclusion(Code.SLOWER, _sentence(place.ranked, best.ranked))
        for name, place in compared.items()
        if place is not best and ends_later(place, best)
    }


def place_of(ranked: Ranked, wait_s: float, state: CandidateState | None) -> Place:
    """Return a candidate with its expected wait in the present state."""
    return Place(ranked, wait_s, state is not None and state.waits is not None)


def times_of(
    fits: Sequence[Fit], known: Mapping[str, Ranked], settings: PolicySettings
) -> Mapping[str, float]:
    """Return the predicted seconds on each of the candidates, by name; empty where some cannot be
    compared with the others."""
    ranked = [known.get(fit.candidate.name) for fit in fits]
    if not all(one is not None and is_known(one, settings) for one in ranked):
        return {}
    return {one.candidate: _length_s(one) for one in ranked if one is not None}


def _length_s(ranked: Ranked) -> float:
    return math.inf if ranked.runtime_s is None else ranked.runtime_s.mid


def _sentence(ranked: Ranked, best: Ranked) -> str:
    return (
        f"it takes {_length_s(ranked) / _length_s(best):.2g} times as long as on {best.candidate}"
    )
