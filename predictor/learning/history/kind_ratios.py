"""Ratios of run times between two kinds of hardware, from past jobs that nobody piloted.

Pairs of runs say how likely each ratio of a program is (``run_pairs``). Programs' ratios scatter
around the site's: a normal distribution whose mean and standard deviation are integrated out. So a
program that ran on both kinds has its own ratio, shrunk towards the others' as far as its pairs
leave it open, and a program that did not has the others' mean and spread (Gelman et al., "Bayesian
Data Analysis", 2013, chapter 5, on a grid).

What the benchmark kernels of ``berth site calibrate`` say of two kinds is the prior of their
programs' mean and spread: alone where no program ran on both, outweighed as programs do.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from berth.predictor.learning.history.kernel_ratios import UNKNOWN, Population
from berth.predictor.learning.history.rings import Floats
from berth.predictor.learning.history.run_pairs import (
    LOG_RATIOS,
    NOISES,
    Platforms,
    RunPair,
    likelihoods,
)

LEAST_USERS = 3
"""Other users must be this many before their programs count for a user's."""
PROGRAMS_OF_USER = 1.0
"""A user's programs count for others as much as this many programs at most: they are alike."""
CHOICE_PROGRAMS = 5
"""Least number of other programs that a program's own ratio is held against."""
_AGREE_WITHIN, _LEAST_APART = 4.0, 0.3
"""Users whose programs' median log ratio is further from the median user's than this many median
deviations, and than this log ratio, do not count for others."""
BEHIND = 0.01
"""Log ratio between the kind that is usually fastest and one that is not surely faster."""
_MEANS: Floats = np.linspace(-4.0, 4.0, 161)
_SPREADS: Floats = np.array([0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.27, 0.35, 0.45, 0.6, 0.8, 1.1])
_MEAN_FREEDOM = 4
"""Degrees of freedom of the prior of the mean, Student's t: a few programs that disagree with the
kernels outweigh them."""
_STEP = float(LOG_RATIOS[1] - LOG_RATIOS[0])
"""No ratio is known better than this."""
_EDGES: Floats = np.append(LOG_RATIOS, LOG_RATIOS[-1] + _STEP) - _STEP / 2
"""Ends of the cells of ``LOG_RATIOS``."""
_NOISES_OF, _ROUNDS, _EQUAL_NOISES = 200, 3, 5.0
"""How common noises are is learnt from so many programs in so many rounds, from this many imagined
programs with all noises equally."""

Program = tuple[str, Hashable]
"""A user and a key of the user's program."""


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


HOME = LogRatio(0.0, 0.0, 0, is_own=True)
"""The ratio of a program's home to itself."""


def in_usual_order(ratios: Mapping[str, LogRatio], usual: Mapping[str, float]) -> dict[str, float]:
    """Return a program's log ratios by platform so that none is before the platform that is fastest
    for programs in general (by ``usual``), but those that are faster by the whole interval.

    The least of several predicted times is often only the most optimistic one. Where the program
    ran on both platforms (``is_own``), its own runs tell.
    """
    best_name = min(ratios, key=lambda name: usual[name])
    best = ratios[best_name]
    mids = {name: ratio.mid for name, ratio in ratios.items()}
    for name, ratio in ratios.items():
        gain, half_width = best.mid - ratio.mid, math.hypot(best.half_width, ratio.half_width)
        if name == best_name or (ratio.is_own and best.is_own) or not -BEHIND < gain < half_width:
            continue
        if ratio.half_width < best.half_width:
            mids[best_name] = min(mids[best_name], ratio.mid - BEHIND)
        else:
            mids[name] = best.mid + BEHIND
    return mids


@dataclass(frozen=True)
class _PairLikelihoods:
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

    def __init__(self, programs: Mapping[Program, Mapping[Platforms, Sequence[RunPair]]]) -> None:
        """Learn from the pairs of each program (``pairs_of``)."""
        collected: dict[Platforms, dict[Program, Sequence[RunPair]]] = {}
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
        if direct is not None and direct.is_own:
            return direct
        names = {name for pair in self._evidence for name in pair} - {platform, other}
        chains: list[LogRatio] = []
        own_chains: list[LogRatio] = []
        for between in sorted(names):
            first = self._direct(platform, between, asker, everybody=everybody)
            second = self._direct(between, other, asker, everybody=everybody)
            if first is not None and second is not None:
                width = float(np.hypot(first.half_width, second.half_width))
                programs = min(first.programs, second.programs)
                own = first.is_own and second.is_own
                chain = LogRatio(first.mid + second.mid, width, programs, own)
                partly_own = first.is_own or second.is_own
                (own_chains if partly_own else chains).append(chain)
        if own_chains:
            return mean_ratio(own_chains if direct is None else [direct, *own_chains])
        if direct is not None:
            return direct
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


def mean_ratio(ratios: Sequence[LogRatio]) -> LogRatio:
    """Return the mean of a ratio's estimates by each platform where the program ran: how unusual it
    is there is independent, and how unusual it is on the compared platform common to all."""
    count = len(ratios)
    width = sum(ratio.half_width for ratio in ratios) / count * ((1 + 1 / count) / 2) ** 0.5
    programs = max(ratio.programs for ratio in ratios)
    own = any(ratio.is_own for ratio in ratios)
    return LogRatio(sum(ratio.mid for ratio in ratios) / count, width, programs, own)


def _evidence(programs: Mapping[Program, Sequence[RunPair]]) -> _PairLikelihoods:
    every = list(programs.values())
    by_noise = np.array([likelihoods(pairs) for pairs in every[:_NOISES_OF]])
    shares = _noise_shares(by_noise)
    further = [shares @ likelihoods(pairs) for pairs in every[_NOISES_OF:]]
    likelihood = np.array([*(shares @ by_noise), *further])
    likelihood /= likelihood.max(axis=1, keepdims=True)
    rows = {program: row for row, program in enumerate(programs)}
    return _PairLikelihoods(
        rows, [user for user, _ in programs], likelihood, _log_marginal(likelihood)
    )


def _log_marginal(likelihood: Floats) -> Floats:
    """Return [programs, spreads, means] the log likelihood of each population."""
    marginal = likelihood @ _populations().reshape(-1, len(LOG_RATIOS)).T
    return np.log(np.maximum(marginal, 1e-300)).reshape(-1, len(_SPREADS), len(_MEANS))


def _noise_shares(by_noise: Floats) -> Floats:
    """Return [noises] how common they are among programs, by expectation maximisation.

    ``by_noise``: [programs, noises, log ratios] the programs' likelihoods.
    """
    shares = np.full(NOISES, 1 / NOISES)
    for _ in range(_ROUNDS):
        marginal = _log_marginal(shares @ by_noise)
        ratios = _predictive(marginal.sum(axis=0) + _prior(UNKNOWN))
        likely = shares * (by_noise @ ratios)
        counts = (likely / likely.sum(axis=1, keepdims=True)).sum(axis=0) + _EQUAL_NOISES / NOISES
        shares = counts / counts.sum()
    return shares


@cache
def _populations() -> Floats:
    """Return [spreads, means, log ratios] the share of programs at each log ratio."""
    spreads = np.maximum(_SPREADS, _STEP / 2)[:, None, None]
    shares = np.exp(-0.5 * ((LOG_RATIOS - _MEANS[:, None]) / spreads) ** 2)
    return np.asarray(shares / shares.sum(axis=2, keepdims=True))


def _prior(kernels: Population) -> Floats:
    """Return [spreads, means] the log of the prior of the programs' mean and spread."""
    log = -0.5 * (_SPREADS[:, None] / kernels.spread) ** 2
    apart = (_MEANS[None, :] - kernels.mean) / kernels.mean_deviation
    log = log - (_MEAN_FREEDOM + 1) / 2 * np.log(1 + apart**2 / _MEAN_FREEDOM)
    return np.asarray(log + np.log(np.gradient(_SPREADS))[:, None])


def _posterior(
    evidence: _PairLikelihoods, weights: Floats, row: int | None, kernels: Population
) -> LogRatio | None:
    """Return the ratio of the program in ``row``, or of an unknown program; ``weights``: how much
    each program counts."""
    if row is not None:
        weights[row] = 0.0
    if row is None and not weights.any():
        return None
    log = np.tensordot(weights, evidence.log_marginal, axes=1) + _prior(kernels)
    programs = int((weights > 0).sum()) + (row is not None)
    others = _ratio_of(log, kernels, programs)
    if row is None:
        return others
    own = _ratio_of(log, kernels, programs, evidence.likelihood[row])
    return _with_choice(own, others) if programs > CHOICE_PROGRAMS else own


def _with_choice(own: LogRatio, others: LogRatio) -> LogRatio:
    """Return a program's ratio; where it lies outside those of other programs, the kind may have
    been chosen by the size of the input: then an interval that holds both, which is not its own."""
    if abs(own.mid - others.mid) <= others.half_width + own.half_width:
        return own
    low = min(each.mid - each.half_width for each in (own, others))
    high = max(each.mid + each.half_width for each in (own, others))
    return own._replace(mid=(low + high) / 2, half_width=(high - low) / 2, is_own=False)


def _predictive(log: Floats) -> Floats:
    """Return [log ratios] the probability of a program's ratio; ``log``: [spreads, means] log
    weight of each population."""
    weights = np.exp(log - log.max())
    return np.asarray(np.tensordot(weights, _populations()) / weights.sum())


def _ratio_of(
    log: Floats, kernels: Population, programs: int, likelihood: Floats | None = None
) -> LogRatio:
    """Return the ratio of a program of the site; ``log``: [spreads, means] log weight of each
    population, ``likelihood``: [log ratios] of the program's own pairs, None: it has none."""
    shares = _predictive(log)
    if likelihood is not None:
        shares = shares * likelihood
    reached = np.append(0.0, np.cumsum(shares) / shares.sum())
    low, mid, high = np.interp((0.05, 0.5, 0.95), reached, _EDGES)
    own = likelihood is not None
    half_width = math.hypot((high - low) / 2, _STEP)
    return LogRatio(float(mid), half_width, programs, own, kernels.kernels)


def _weights(evidence: _PairLikelihoods, user: str, everybody: bool) -> Floats:
    """Return [programs] how much each counts for the user's programs."""
    count = {name: evidence.users.count(name) for name in set(evidence.users)}
    agreeing = set(count) if everybody else _agreeing(evidence, set(count) - {user})
    if not everybody and len(agreeing) < LEAST_USERS:
        agreeing = set()
    return np.array(
        [
            1.0 if name == user
            else min(1.0, PROGRAMS_OF_USER / count[name]) if name in agreeing else 0.0
            for name in evidence.users
        ]
    )  # fmt: skip


def _agreeing(evidence: _PairLikelihoods, users: set[str]) -> set[str]:
    """Return the users whose programs' ratios are like those of most: a few users' jobs, whether
    odd or made to mislead, change nobody else's places."""
    likely = LOG_RATIOS[evidence.likelihood.argmax(axis=1)]
    owners = np.array(evidence.users)
    medians = {name: float(np.median(likely[owners == name])) for name in users}
    if len(medians) < LEAST_USERS:
        return set(medians)
    middle = float(np.median(list(medians.values())))
    usual = float(np.median([abs(median - middle) for median in medians.values()]))
    most = max(_AGREE_WITHIN * usual, _LEAST_APART)
    return {name for name, median in medians.items() if abs(median - middle) <= most}
