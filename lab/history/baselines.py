"""Simple predictors of a job's run time, from jobs that had ended at its submission."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from berth.predictor.learning.history.replay import Event
from lab.datasets.ricc import Trace
from lab.ground.table import Floats
from lab.history.replay import events

LAST = 20
"""Ended jobs of a user, number of processors and request that are looked at."""
_MISSES = 0.1
_STEP = 0.05


@dataclass(frozen=True, slots=True)
class Baselines:
    """[jobs] seconds; NaN: no such history."""

    request: Floats
    last_two: Floats
    """Mean of the user's last two (Tsafrir, Etsion, Feitelson 2007), at most the request."""
    median: Floats
    """Of the last 20 of user, processors and request."""
    median_at_start: Floats
    low: Floats
    """Empirical 5 and 95 % quantiles of these 20, padded online to 90 % coverage."""
    high: Floats
    plain_low: Floats
    plain_high: Floats
    """Not padded."""


def baselines(trace: Trace) -> Baselines:
    """All of them in one pass."""
    jobs = len(trace)
    of_user: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=2))
    of_shape: dict[Hashable, deque[float]] = defaultdict(lambda: deque(maxlen=LAST))
    shapes = list(zip(trace.user.tolist(), trace.cores.tolist(), trace.request_s.tolist(),
                      strict=True))  # fmt: skip
    two, median, again, low, high = (np.full(jobs, np.nan) for _ in range(5))
    plain_low, plain_high = np.full(jobs, np.nan), np.full(jobs, np.nan)
    padding = 0.5
    run = trace.runtime_s.tolist()
    for event, job in events(trace):
        user, past = shapes[job][0], of_shape[shapes[job]]
        if event is Event.END:
            if not np.isnan(plain_low[job]):
                missed = (
                    not plain_low[job] - padding <= np.log(run[job]) <= (plain_high[job] + padding)
                )
                padding = max(padding + _STEP * (missed - _MISSES), 0.0)
            of_user[user].append(run[job])
            past.append(run[job])
        elif event is Event.ASKED:
            if len(of_user[user]) == 2:
                two[job] = min(sum(of_user[user]) / 2, trace.request_s[job])
            if past:
                values = np.fromiter(past, float, len(past))
                values.sort()
                median[job] = _quantile(values, 0.5)
                plain_low[job] = np.log(_quantile(values, 0.05))
                plain_high[job] = np.log(_quantile(values, 0.95))
                low[job], high[job] = plain_low[job] - padding, plain_high[job] + padding
        else:
            again[job] = _quantile(np.sort(np.array(past)), 0.5) if past else median[job]
    return Baselines(
        trace.request_s, two, median, again, np.exp(low), np.exp(high), np.exp(plain_low),
        np.exp(plain_high),
    )  # fmt: skip


def _quantile(values: Floats, share: float) -> float:
    """Of sorted values, linear between two; faster than numpy's on a few."""
    place = share * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return float(values[below] + (place - below) * (values[above] - values[below]))
