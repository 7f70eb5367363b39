"""Pairs of a program's runs on two kinds of hardware, and how likely they make each ratio.

A program's times vary with its inputs far more than between kinds, so runs are compared in pairs:
two runs of equal shape (program, cores, time limit), the one submitted next after the other, on
different kinds. The log differences of a program's pairs scatter around the program's log ratio
with heavy tails: their likelihood is Student's t with two degrees of freedom, with a scale of the
program, and for a share of the pairs with a wide one. How common each scale and share are is
learnt from all programs. The resolution of the accounting's clock is added to the scale.

Runs that are long are missing more often on the slower kind: they reach their time limit there, or
have not ended yet. A run that was cut off at its limit therefore counts as a bound of the ratio,
and runs that began too recently for all of their program to have ended do not count.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from berth.predictor.learning.evidence import WHOLE_SECONDS_DEVIATION_S
from berth.predictor.learning.history.rings import Floats

PAIRS = 40
"""Pairs of a program that count, the newest ones."""
MOST_ENDED, LONGER_ELSEWHERE = 0.9, 2.0
"""Of runs that began longer ago than this many times the run time below which this share of the
program's runs is, practically all have ended."""
CHANGE_RUNS, LEAST_CHANGE = 5, math.log(1.5)
"""A lasting change of a program's time on a platform: so many runs in a row, by this log ratio."""
LOG_RATIOS: Floats = np.linspace(-4.0, 4.0, 321)
"""Log ratios of a program's times whose likelihoods are computed."""
_SCALES: Floats = np.geomspace(0.02, 2.5, 8)
_UNLIKE_SHARES, _UNLIKE_SCALE = (0.1, 0.3, 0.6), 2.5
"""Shares of pairs whose runs had quite different inputs, and the scale of their log ratio."""
NOISES = len(_SCALES) * len(_UNLIKE_SHARES)
"""Number of combinations of scale and share."""


class TimedRun(NamedTuple):
    """One finished run of a program."""

    shape: Hashable
    """Runs of equal shape are compared with each other."""
    platform: str
    submit_s: float
    start_s: float
    runtime_s: float
    cut_off: bool = False
    """Whether the run reached its time limit: it would have taken longer."""


class RunPair(NamedTuple):
    """The log ratio of two runs of equal shape on two platforms."""

    log_ratio: float
    clock: float
    """Standard deviation of the log ratio from the clock's resolution alone."""
    weight: float = 1.0
    """How many independent pairs it is worth: a run may be in two pairs."""
    bound: int = 0
    """1: the log ratio is at least this, -1: at most, because one of the runs was cut off."""


Platforms = tuple[str, str]


def pairs_of(
    runs: Iterable[TimedRun], *, now_s: float = math.inf
) -> Mapping[Platforms, list[RunPair]]:
    """Return a program's pairs by (platform, other platform) in order of names, the newest last;
    the ratio is the time on the first over the time on the second.

    ``now_s``: Unix time until which runs had ended, if they had, when they were read.
    """
    by_shape: dict[Hashable, list[TimedRun]] = {}
    for run in _since_change(runs):
        by_shape.setdefault(run.shape, []).append(run)
    compared: dict[Platforms, list[tuple[TimedRun, TimedRun]]] = {}
    for same in by_shape.values():
        if len({run.platform for run in same}) < 2:
            continue
        times_s = sorted(run.runtime_s for run in same)
        begun_s = now_s - LONGER_ELSEWHERE * times_s[int(MOST_ENDED * (len(times_s) - 1))]
        ended = (run for run in same if run.start_s <= begun_s)
        for before, after in pairwise(sorted(ended, key=lambda run: run.submit_s)):
            is_known = not (before.cut_off and after.cut_off)
            if is_known and before.platform != after.platform:
                key = min(before.platform, after.platform), max(before.platform, after.platform)
                compared.setdefault(key, []).append((before, after))
    return {key: _newest(each) for key, each in compared.items()}


def _since_change(runs: Iterable[TimedRun]) -> Iterator[TimedRun]:
    """Yield the runs, of each shape on each platform only those since the last lasting change of
    their time: a kind of node may have become slower, or the program's work another."""
    by_place: dict[tuple[Hashable, str], list[TimedRun]] = {}
    for run in runs:
        by_place.setdefault((run.shape, run.platform), []).append(run)
    for same in by_place.values():
        same.sort(key=lambda run: run.start_s)
        yield from same[_last_change([math.log(max(run.runtime_s, 1.0)) for run in same]) :]


def _last_change(logs: Sequence[float]) -> int:
    """Return the place of the first run after the last lasting change of log times; 0: none.

    The median of the newest ``CHANGE_RUNS`` runs is compared with those before, by their own
    scatter.
    """
    newest, before = logs[-CHANGE_RUNS:], logs[:-CHANGE_RUNS]
    if len(before) < CHANGE_RUNS:
        return 0
    now, then = statistics.median(newest), statistics.median(before)
    scatter = max(
        statistics.median(abs(log - middle) for log in part)
        for part, middle in ((newest, now), (before, then))
    )
    if abs(now - then) < max(LEAST_CHANGE, 5.0 * scatter):
        return 0
    first = len(before)
    while first > 0 and abs(logs[first - 1] - now) < abs(logs[first - 1] - then):
        first -= 1
    return first


def _newest(compared: list[tuple[TimedRun, TimedRun]]) -> list[RunPair]:
    """Return the newest pairs of runs; they are worth half as many as they have runs."""
    compared.sort(key=lambda runs: runs[1].submit_s)
    newest = compared[-PAIRS:]
    weight = len({id(run) for runs in newest for run in runs}) / (2 * len(newest))
    pairs = []
    for runs in newest:
        first, second = sorted(runs, key=lambda run: run.platform)
        times = np.maximum([first.runtime_s, second.runtime_s], WHOLE_SECONDS_DEVIATION_S)
        clock = WHOLE_SECONDS_DEVIATION_S * float(np.hypot(*(1.0 / times)))
        bound = int(first.cut_off) - int(second.cut_off)
        pairs.append(RunPair(float(np.log(times[0] / times[1])), clock, weight, bound))
    return pairs


def likelihoods(pairs: Sequence[RunPair]) -> Floats:
    """Return [noises, log ratios] the likelihood of a program's pairs for each combination of scale
    and share, scaled to a maximum of 1."""
    differences, clocks, weights, bounds = np.array(pairs).T
    apart, bounds = differences[:, None] - LOG_RATIOS, bounds[:, None]
    similar = _likelihood(apart, np.hypot(_SCALES[:, None], clocks)[:, :, None], bounds)
    unlike = _likelihood(apart, np.hypot(_UNLIKE_SCALE, clocks)[:, None], bounds)
    of_shares = [np.log((1 - share) * similar + share * unlike) for share in _UNLIKE_SHARES]
    log = np.concatenate([np.tensordot(of_pairs, weights, axes=(1, 0)) for of_pairs in of_shares])
    return np.asarray(np.exp(log - log.max()))


def _likelihood(apart: Floats, scale: Floats, bounds: Floats) -> Floats:
    """Return the density of Student's t with two degrees of freedom at ``apart``, or, where that
    is a bound, the probability that lies beyond it."""
    x = apart / scale
    density = (2.0 + x**2) ** -1.5 / scale
    beyond = 0.5 - bounds * x / (2.0 * np.sqrt(2.0 + x**2))
    return np.asarray(np.where(bounds == 0, density, beyond))
