"""The Gaussian process over what calibrated physics misses: fitting and thinning.

Scales and lengths maximise the marginal likelihood of a random part of the rows (Rasmussen and
Williams 2006, equation 5.8), held to ``TERMS`` by a weak prior. Rows far from what all others
predict (leave-one-out, closed form) get more noise, so that a measurement accident pulls little.
The process stands on a part of the rows, those that pivoted Cholesky finds least alike, and is
projected there from all (Rasmussen and Williams 2006, section 8.3.4): what is served is what was
evaluated, and it answers in a fraction of a millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.physics import OFFLINE, SATURATED, TPOT, TTFT
from berth.predictor.families.language_model.residual import NUMBERS, TIES, Integers

LIKELIHOOD_ROWS = {OFFLINE: 300, SATURATED: 400, TTFT: 200, TPOT: 200}
LIKELIHOOD_STEPS = 20
SERVED_ROWS = {OFFLINE: 800, SATURATED: 500, TTFT: 600, TPOT: 600}
_JITTER = 1e-9
_PRIOR_SPREAD = 1.5
_ROBUST_ROUNDS, _OUTLIER = 2, 2.5
_LEAST_NOISE, _NOISE, _MOST_NOISE = 0.015, 0.03, 0.1
"""In log seconds; repeats of one configuration differ by 0.8 % in the median."""


@dataclass(frozen=True, slots=True)
class Term:
    """One kernel: same ties, near numbers."""

    name: str
    ties: tuple[int, ...]
    numbers: tuple[int, ...]
    variance: float
    lengths: tuple[float, ...]


def _term(name: str, ties: str, numbers: Sequence[str], variance: float) -> Term:
    return Term(
        name,
        tuple(TIES.index(t) for t in ties.split()),
        tuple(NUMBERS.index(n) for n in numbers),
        variance,
        tuple(1.0 if n in _OF_MODEL else 2.0 for n in numbers),
    )


_OF_MODEL = ("active", "total", "cache", "vocabulary")
_LOAD = ("context", "batch", "gpus", "room", "at_once")
_SERVED = ("input", "output", "batch", "gpus", "at_once", "bits", "replicas", "dealt")
_SERVING = (
    _term("all", "", (*_SERVED, *_OF_MODEL), 0.2),
    _term("accelerator", "accelerator", _SERVED, 0.05),
    _term("framework", "framework", _SERVED, 0.05),
    _term("pair", "accelerator framework", (*_SERVED, *_OF_MODEL), 0.1),
    _term("model", "model", _SERVED, 0.05),
    _term("accelerator and model", "accelerator model", _SERVED, 0.02),
    _term("framework and model", "framework model", _SERVED, 0.05),
    _term("block", "accelerator framework model", _SERVED, 0.05),
    _term("block and bits", "accelerator framework model bits", _SERVED, 0.02),
)
TERMS = {
    OFFLINE: (
        _term("all", "", (*_LOAD, *_OF_MODEL), 0.3),
        _term("accelerator", "accelerator", _LOAD, 0.1),
        _term("framework", "framework", _LOAD, 0.1),
        _term("pair", "accelerator framework", _LOAD, 0.2),
        _term("pair by model", "accelerator framework", (*_LOAD, *_OF_MODEL), 0.2),
        _term("model", "model", _LOAD, 0.05),
        _term("accelerator and model", "accelerator model", _LOAD, 0.05),
        _term("framework and model", "framework model", _LOAD, 0.05),
        _term("block", "accelerator framework model", _LOAD, 0.05),
        _term("cell", "accelerator framework length batch", ("gpus", *_OF_MODEL), 0.01),
        _term("cell and count", "accelerator framework gpus length batch", _OF_MODEL, 0.01),
        _term("pair and count", "accelerator framework gpus", (*_LOAD, *_OF_MODEL), 0.02),
    ),
    SATURATED: _SERVING,
    TTFT: _SERVING,
    TPOT: _SERVING,
}
"""Where the likelihood starts, and its weak prior."""


@dataclass(frozen=True)
class Process:
    """A fitted process: its kernels, the rows it stands on and their weights."""

    terms: tuple[Term, ...]
    ties: Integers
    numbers: Floats
    weights: Floats
    mean: float

    def __call__(self, ties: Integers, numbers: Floats) -> Floats:
        """Return the predicted log residual of each case."""
        found = covariance(self.terms, ties, numbers, self.ties, self.numbers)
        return np.asarray(self.mean + found @ self.weights, dtype=np.float64)


def covariance(
    terms: Sequence[Term], ties: Integers, numbers: Floats, others: Integers, other: Floats
) -> Floats:
    """Return the covariance between two sets of cases."""
    total = np.zeros((len(numbers), len(other)))
    for term in terms:
        columns, scale = list(term.numbers), np.array(term.lengths)
        a, b = numbers[:, columns] / scale, other[:, columns] / scale
        power = a @ b.T - 0.5 * (a * a).sum(axis=1)[:, None] - 0.5 * (b * b).sum(axis=1)[None, :]
        each = term.variance * np.exp(np.minimum(power, 0.0))
        if term.ties:
            each *= _same(term.ties, ties, others)
        total += each
    return total


def fit_terms(
    head: str, ties: Integers, numbers: Floats, missed: Floats, seed: int
) -> tuple[tuple[Term, ...], float]:
    """Return kernels and the variance of noise by marginal likelihood on a random part of the
    rows."""
    start = TERMS[head]
    part = np.random.default_rng(seed).permutation(len(missed))[: LIKELIHOOD_ROWS[head]]
    ties, numbers = ties[part], numbers[part]
    wanted = missed[part] - np.median(missed[part])
    used = sorted({d for term in start for d in term.numbers})
    apart = {d: (numbers[:, d][:, None] - numbers[:, d][None, :]) ** 2 for d in used}
    masks = [_same(t.ties, ties, ties) if t.ties else None for t in start]
    first = np.log(np.array([*(v for t in start for v in (t.variance, *t.lengths)), _NOISE**2]))
    # Accidents are found first: one of them would pass for noise of all.
    noises = fit_process(start, _NOISE**2, ties, numbers, missed[part], rows=len(part))[1]
    times = noises / _NOISE**2

    def loss(at: Floats) -> tuple[float, Floats]:
        kernels = []
        for term, mask, (log_variance, *log_lengths) in zip(
            start, masks, _by_term(start, at), strict=True
        ):
            power = np.zeros((len(part), len(part)))
            for d, log_length in zip(term.numbers, log_lengths, strict=True):
                power += apart[d] * np.exp(-2 * log_length)
            each = np.exp(log_variance - 0.5 * power)
            kernels.append(each if mask is None else each * mask)
        total = np.sum(kernels, axis=0)
        total[np.diag_indices(len(part))] += np.exp(at[-1]) * times
        try:
            factor = cholesky(total, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(at)
        inverse = _inverse(factor)
        weights = inverse @ wanted
        pull = inverse - np.outer(weights, weights)
        value = 0.5 * wanted @ weights + np.log(np.diag(factor)).sum()
        slope = []
        for term, each, (_, *log_lengths) in zip(start, kernels, _by_term(start, at), strict=True):
            held = pull * each
            slope.append(0.5 * held.sum())
            for d, log_length in zip(term.numbers, log_lengths, strict=True):
                slope.append(0.5 * np.vdot(held, apart[d]) * np.exp(-2 * log_length))
        slope.append(0.5 * np.exp(at[-1]) * (np.diag(pull) * times).sum())
        away = (at - first) / _PRIOR_SPREAD
        return float(value + 0.5 * away @ away), np.array(slope) + away / _PRIOR_SPREAD

    options = {"maxiter": LIKELIHOOD_STEPS}
    bounds = [(-12.0, 5.0)] * (len(first) - 1) + [
        (float(np.log(_LEAST_NOISE**2)), float(np.log(_MOST_NOISE**2)))
    ]
    best = minimize(loss, first, jac=True, method="L-BFGS-B", options=options, bounds=bounds).x
    found = [
        replace(term, variance=_short(variance), lengths=tuple(map(_short, lengths)))
        for term, (variance, *lengths) in zip(start, _by_term(start, np.exp(best)), strict=True)
    ]
    return tuple(found), float(np.exp(best[-1]))


def _by_term(terms: Sequence[Term], parameters: Floats) -> list[Floats]:
    """Return the variance and lengths of each term; what is left at the end is the noise."""
    ends = np.cumsum([1 + len(term.numbers) for term in terms])
    return np.split(parameters[: ends[-1]], ends[:-1])


def fit_process(
    terms: tuple[Term, ...],
    noise: float,
    ties: Integers,
    numbers: Floats,
    missed: Floats,
    *,
    rows: int,
) -> tuple[Process, Floats]:
    """Return the process on ``rows`` of the rows, learnt from all, and the noise that each was
    given."""
    mean = float(np.median(missed))
    chosen = _least_alike(terms, ties, numbers, min(rows, len(missed)))
    cross = covariance(terms, ties, numbers, ties[chosen], numbers[chosen])
    among = cross[chosen] + _JITTER * np.eye(len(chosen))
    factor = cholesky(among, lower=True, check_finite=False)
    whitened = solve_triangular(factor, cross.T, lower=True, check_finite=False).T
    wanted = missed - mean
    noises = np.full(len(missed), noise)
    for _ in range(_ROBUST_ROUNDS + 1):
        scaled = whitened / np.sqrt(noises)[:, None]
        inner = cholesky(scaled.T @ scaled + np.eye(len(chosen)), lower=True, check_finite=False)
        half = solve_triangular(inner, scaled.T, lower=True, check_finite=False)
        weights = solve_triangular(
            inner, half @ (wanted / np.sqrt(noises)), lower=True, trans=1, check_finite=False
        )
        pull = np.minimum((half * half).sum(axis=0), 0.99)
        off = np.abs(wanted - whitened @ weights) / (1 - pull)
        # What the others leave open of a row, and the usual noise.
        usual = np.sqrt(noises * pull / (1 - pull) + noise)
        found = noise * np.maximum(1.0, (off / usual / _OUTLIER) ** 4)
        last, noises = noises, found
    served = solve_triangular(factor, weights, lower=True, trans=1, check_finite=False)
    return Process(terms, ties[chosen], numbers[chosen], served, mean), last


def _least_alike(
    terms: Sequence[Term], ties: Integers, numbers: Floats, rows: int
) -> NDArray[np.int64]:
    """Return rows by pivoted Cholesky: each the one that those before it explain least."""
    left = np.full(len(numbers), sum(term.variance for term in terms))
    factor = np.zeros((rows, len(numbers)))
    chosen: list[int] = []
    for i in range(rows):
        best = int(np.argmax(left))
        row = covariance(terms, ties[best : best + 1], numbers[best : best + 1], ties, numbers)[0]
        factor[i] = (row - factor[:i, best] @ factor[:i]) / np.sqrt(max(left[best], 1e-12))
        left = np.maximum(left - factor[i] ** 2, 0.0)
        left[chosen] = 0.0
        left[best] = 0.0
        chosen.append(best)
    return np.array(sorted(chosen), dtype=np.int64)


def _same(columns: tuple[int, ...], one: Integers, other: Integers) -> Floats:
    same = np.ones((len(one), len(other)), dtype=bool)
    for c in columns:
        same &= (one[:, c][:, None] == other[:, c][None, :]) & (one[:, c][:, None] >= 0)
    return same.astype(np.float64)


def _inverse(factor: Floats) -> Floats:
    lower = np.tril(dpotri(factor, lower=1)[0])
    return np.asarray(lower + np.tril(lower, -1).T, dtype=np.float64)


def _short(value: float) -> float:
    return float(f"{value:.8g}")
