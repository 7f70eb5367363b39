"""Ratios of run times between two kinds of hardware, from past jobs that nobody piloted.

A program's times vary with its inputs far more than between kinds, so runs are compared in pairs:
two runs of equal shape (program, cores, time limit), the one submitted next after the other, on
different kinds. The log differences of a program's pairs scatter around the program's log ratio
with heavy tails: their likelihood is Student's t with two degrees of freedom, with a scale of the
program, and for a share of the pairs with a wide one; scale and share are integrated out. The
resolution of the accounting's clock is added to the scale.

Programs' ratios scatter around the site's: a normal distribution whose mean and standard deviation
are integrated out as well. So a program that ran on both kinds has its own ratio, shrunk towards
the others' as far as its pairs leave it open, and a program that did not has the others' mean and
spread (Gelman et al., "Bayesian Data Analysis", 2013, chapter 5, on a grid).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from berth.predictor.learning.evidence import WHOLE_SECONDS_DEVIATION_S
from berth.predictor.learning.history.kernel_ratios import UNKNOWN, Population
from berth.predictor.learning.history.rings import Floats

PAIRS = 40
"""Pairs of a program that count, the newest ones."""
LEAST_USERS = 3
"""Other users must be this many before their programs count for a user's."""
PROGRAMS_OF_USER = 3.0
"""A user's programs count for others as much as this many programs at most."""
_LOG_RATIOS: Floats = np.linspace(-4.0, 4.0, 321)
_SCALES: Floats = np.geomspace(0.02, 2.5, 8)
_UNLIKE_SHARES, _UNLIKE_SCALE = (0.1, 0.3, 0.6), 2.5
"""Shares of pairs whose runs had quite different inputs, and the scale of their log ratio."""
_MEANS: Floats = np.linspace(-4.0, 4.0, 161)
_SPREADS: Floats = np.array([0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.27, 0.35, 0.45, 0.6, 0.8, 1.1])
_MEAN_FREEDOM = 4
"""Degrees of freedom of the prior of the mean, Student's t: a few programs that disagree with the
kernels outweigh them."""
_SHARED = 0.5
"""Weight of a pair: each run is in up to two pairs."""


class TimedRun(NamedTuple):
    """One finished run of a program."""

    shape: Hashable
    """Runs of equal shape are compared with each other."""
    platform: str
    submit_s: float
    runtime_s: float


class Pair(NamedTuple):
    """The log ratio of two runs of equal shape on two platforms."""

    log_ratio: float
    clock: float
    """Standard deviation of the log ratio from the clock's resolution alone."""


class LogRatio(NamedTuple):
    """A ratio of run times in natural log, with the half width of its 90 % interval."""

    mid: float
    half_width: float
    programs: int
    """Number of programs that the estimate rests on."""
    is_own: bool
    """Whether pairs of the program itself are among the evidence."""
    kernels: int = 0
    """Number of benchmark kernels that both platforms ran."""


Platforms = tuple[str, str]
Program = tuple[str, Hashable]
"""A user and a key of the user's program."""


def pairs_of(runs: Iterable[TimedRun]) -> Mapping[Platforms, list[Pair]]:
    """Return a program's pairs by (platform, other platform) in order of names, the newest last;
    the ratio is the time on the first over the time on the second."""
    by_shape: dict[Hashable, list[TimedRun]] = {}
    for run in runs:
        by_shape.setdefault(run.shape, []).append(run)
    dated: dict[Platforms, list[tuple[float, Pair]]] = {}
    for same in by_shape.values():
        same.sort(key=lambda run: run.submit_s)
        for before, after in pairwise(same):
            if before.platform == after.platform:
                continue
            first, second = sorted((before, after), key=lambda run: run.platform)
            clock_s = WHOLE_SECONDS_DEVIATION_S
            times = np.maximum([first.runtime_s, second.runtime_s], clock_s)
            log_ratio = float(np.log(times[0] / times[1]))
            pair = Pair(log_ratio, clock_s * float(np.hypot(*(1.0 / times))))
            key = first.platform, second.platform
            dated.setdefault(key, []).append((after.submit_s, pair))
    return {
        key: [pair for _, pair in sorted(each, key=lambda one: one[0])[-PAIRS:]]
        for key, each in dated.items()
    }


@dataclass(frozen=True)
class _Evidence:
    """Likelihoods of all programs that ran on two platforms."""

    rows: Mapping[Program, int]
    """Row of each program in the arrays."""
    users: Sequence[str]
    """[programs] user of each."""
    likelihood: Floats
    """[programs, log ratios] scaled to a maximum of 1."""
    log_marginal: Floats
    """[programs, spreads, means] log likelihood of each population."""


class KindRatios:
    """The ratios between all pairs of platforms, for programs that are known and for others."""

    def __init__(self, programs: Mapping[Program, Mapping[Platforms, Sequence[Pair]]]) -> None:
        """Learn from the pairs of each program (``pairs_of``)."""
        collected: dict[Platforms, dict[Program, Sequence[Pair]]] = {}
        for program, by_platforms in programs.items():
            for platforms, pairs in by_platforms.items():
                collected.setdefault(platforms, {})[program] = pairs
        self._evidence = {key: _evidence(each) for key, each in collected.items()}
        self._known: dict[tuple[object, ...], LogRatio | None] = {}

    def between(
        self,
        platform: str,
        other: str,
        user: str,
        program: Hashable | None = None,
        *,
        everybody: bool = False,
        kernels: Population = UNKNOWN,
    ) -> LogRatio | None:
        """Return the log of a program's time on ``platform`` over its time on ``other``; None: no
        program ran on both, nor on both and one platform between them, and no kernel did.

        ``program`` None: an unknown program of the user. Other users' programs count where there
        are at least ``LEAST_USERS`` of them, or the site trusts all users (``everybody``).
        ``kernels``: what benchmark kernels say of this ratio.
        """
        asker = user, program
        direct = self._direct(platform, other, asker, everybody=everybody, kernels=kernels)
        if direct is not None:
            return direct
        names = {name for pair in self._evidence for name in pair} - {platform, other}
        chains = []
        for between in sorted(names):
            first = self._direct(platform, between, asker, everybody=everybody)
            second = self._direct(between, other, asker, everybody=everybody)
            if first is not None and second is not None:
                width = float(np.hypot(first.half_width, second.half_width))
                programs = min(first.programs, second.programs)
                own = first.is_own and second.is_own
                chains.append(LogRatio(first.mid + second.mid, width, programs, own))
        if chains:
            return min(chains, key=lambda chain: chain.half_width)
        return _ratio_of(_prior(kernels), kernels, 0) if kernels.kernels else None

    def _direct(
        self,
        platform: str,
        other: str,
        key: Program,
        *,
        everybody: bool,
        kernels: Population = UNKNOWN,
    ) -> LogRatio | None:
        pair = min(platform, other), max(platform, other)
        evidence = self._evidence.get(pair)
        if evidence is None:
            return None
        if key not in evidence.rows:
            key = (key[0], None)
        if platform != pair[0]:
            kernels = kernels._replace(mean=-kernels.mean)
        asked = (pair, key, everybody, kernels)
        if asked not in self._known:
            weights = _weights(evidence, key[0], everybody)
            row = evidence.rows.get(key)
            self._known[asked] = _posterior(evidence, weights, row, kernels)
        ratio = self._known[asked]
        if ratio is None or platform == pair[0]:
            return ratio
        return ratio._replace(mid=-ratio.mid)


def _evidence(programs: Mapping[Program, Sequence[Pair]]) -> _Evidence:
    log = np.array([_log_likelihood(pairs) for pairs in programs.values()])
    likelihood = np.exp(log - log.max(axis=1, keepdims=True))
    marginal = np.array([likelihood @ _populations(spread).T for spread in _SPREADS.tolist()])
    log_marginal = np.log(np.maximum(marginal, 1e-300)).transpose(1, 0, 2)
    rows = {program: row for row, program in enumerate(programs)}
    return _Evidence(rows, [user for user, _ in programs], likelihood, log_marginal)


@lru_cache(maxsize=len(_SPREADS))
def _populations(spread: float) -> Floats:
    """Return [means, log ratios] the share of programs at each log ratio, for each mean."""
    step = _LOG_RATIOS[1] - _LOG_RATIOS[0]
    apart = (_LOG_RATIOS[None, :] - _MEANS[:, None]) / max(spread, step / 2)
    shares = np.exp(-0.5 * apart**2)
    normed: Floats = shares / shares.sum(axis=1, keepdims=True)
    return normed


def _log_likelihood(pairs: Sequence[Pair]) -> Floats:
    """Return [log ratios] the log likelihood of a program's pairs, over all scales and shares."""
    differences, clocks = np.array(pairs).T
    apart = differences[:, None] - _LOG_RATIOS
    alike = _density(apart, np.hypot(_SCALES[:, None], clocks)[:, :, None])
    unlike = _density(apart, np.hypot(_UNLIKE_SCALE, clocks)[:, None])
    each = [np.log((1 - share) * alike + share * unlike) for share in _UNLIKE_SHARES]
    log = _SHARED * np.concatenate([one.sum(axis=1) for one in each])
    top = log.max()
    total: Floats = top + np.log(np.exp(log - top).sum(axis=0))
    return total


def _density(apart: Floats, scale: Floats) -> Floats:
    """Return the density of Student's t with two degrees of freedom, up to a constant."""
    density: Floats = (1.0 + (apart / scale) ** 2 / 2.0) ** -1.5 / scale
    return density


def _prior(kernels: Population) -> Floats:
    """Return [spreads, means] the log of the prior of the programs' mean and spread."""
    log = -0.5 * (_SPREADS[:, None] / kernels.spread) ** 2
    apart = (_MEANS[None, :] - kernels.mean) / kernels.mean_deviation
    log = log - (_MEAN_FREEDOM + 1) / 2 * np.log(1 + apart**2 / _MEAN_FREEDOM)
    return np.asarray(log + np.log(np.gradient(_SPREADS))[:, None])


def _posterior(
    evidence: _Evidence, weights: Floats, row: int | None, kernels: Population
) -> LogRatio | None:
    """Return the ratio of the program in ``row``, or of an unknown program; ``weights``: how much
    each program counts."""
    if row is not None:
        weights[row] = 0.0
    if row is None and not weights.any():
        return None
    log = np.tensordot(weights, evidence.log_marginal, axes=1) + _prior(kernels)
    programs = int((weights > 0).sum()) + (row is not None)
    return _ratio_of(log, kernels, programs, None if row is None else evidence.likelihood[row])


def _ratio_of(
    log: Floats, kernels: Population, programs: int, likelihood: Floats | None = None
) -> LogRatio:
    """Return the ratio of a program of the site; ``log``: [spreads, means] log weight of each
    population, ``likelihood``: [log ratios] of the program's own pairs, None: it has none."""
    of_population = np.exp(log - log.max())
    shares = sum(
        weight @ _populations(spread)
        for weight, spread in zip(of_population, _SPREADS.tolist(), strict=True)
    )
    if likelihood is not None:
        shares = shares * likelihood
    reached = np.cumsum(shares) / np.sum(shares)
    low, mid, high = np.interp((0.05, 0.5, 0.95), reached, _LOG_RATIOS)
    own = likelihood is not None
    return LogRatio(float(mid), float(high - low) / 2, programs, own, kernels.kernels)


def _weights(evidence: _Evidence, user: str, everybody: bool) -> Floats:
    """Return [programs] how much each counts for the user's programs."""
    count = {name: evidence.users.count(name) for name in set(evidence.users)}
    others = everybody or len(set(count) - {user}) >= LEAST_USERS
    return np.array(
        [
            1.0 if name == user else min(1.0, PROGRAMS_OF_USER / count[name]) if others else 0.0
            for name in evidence.users
        ]
    )
