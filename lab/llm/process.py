"""Fit the Gaussian process over what calibrated physics misses.

Scales and lengths maximise the marginal likelihood of a random part of the rows (Rasmussen and
Williams 2006, equation 5.8), held to ``KERNELS`` by a weak prior. Rows far from what all others
predict (leave-one-out, ibid. equation 5.12) get more noise, so that a measurement accident pulls
little. The process stands on all measured rows: what is served is what was evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cholesky
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.physics import OFFLINE, SATURATED, TPOT, TTFT
from berth.predictor.families.language_model.residual import (
    NUMBERS,
    TIES,
    Integers,
    Residual,
    ResidualKernel,
    covariance,
    equal,
)

LIKELIHOOD_ROWS = {OFFLINE: 600, SATURATED: 400, TTFT: 200, TPOT: 200}
"""Number of rows of which the likelihood is computed: with more, the times to a token get lengths
that extrapolate badly."""
LIKELIHOOD_STEPS = 20
_PRIOR_SPREAD = 1.5
_ROBUST_ROUNDS, _OUTLIER = 2, 2.5
_LEAST_NOISE, _NOISE, _MOST_NOISE = 0.015, 0.03, 0.1
"""In log seconds; repeats of one configuration differ by 0.8 % in the median."""


def _kernel(name: str, ties: str, numbers: Sequence[str], variance: float) -> ResidualKernel:
    return ResidualKernel(
        name=name,
        ties=tuple(TIES.index(t) for t in ties.split()),
        numbers=tuple(NUMBERS.index(n) for n in numbers),
        variance=variance,
        lengths=tuple(1.0 if n in _OF_MODEL else 2.0 for n in numbers),
    )


_OF_MODEL = ("active", "total", "cache", "vocabulary")
_LOAD = ("context", "batch", "gpus", "room", "at_once")
_SERVED = ("input", "output", "batch", "gpus", "at_once", "bits", "replicas", "dealt")
_SERVING = (
    _kernel("all", "", (*_SERVED, *_OF_MODEL), 0.2),
    _kernel("accelerator", "accelerator", _SERVED, 0.05),
    _kernel("framework", "framework", _SERVED, 0.05),
    _kernel("pair", "accelerator framework", (*_SERVED, *_OF_MODEL), 0.1),
    _kernel("model", "model", _SERVED, 0.05),
    _kernel("accelerator and model", "accelerator model", _SERVED, 0.02),
    _kernel("framework and model", "framework model", _SERVED, 0.05),
    _kernel("block", "accelerator framework model", _SERVED, 0.05),
    _kernel("block and bits", "accelerator framework model bits", _SERVED, 0.02),
)
KERNELS = {
    OFFLINE: (
        _kernel("all", "", (*_LOAD, *_OF_MODEL), 0.3),
        _kernel("accelerator", "accelerator", _LOAD, 0.1),
        _kernel("framework", "framework", _LOAD, 0.1),
        _kernel("pair", "accelerator framework", _LOAD, 0.2),
        _kernel("pair by model", "accelerator framework", (*_LOAD, *_OF_MODEL), 0.2),
        _kernel("model", "model", _LOAD, 0.05),
        _kernel("accelerator and model", "accelerator model", _LOAD, 0.05),
        _kernel("framework and model", "framework model", _LOAD, 0.05),
        _kernel("block", "accelerator framework model", _LOAD, 0.05),
        _kernel("cell", "accelerator framework length batch", ("gpus", *_OF_MODEL), 0.01),
        _kernel("cell and count", "accelerator framework gpus length batch", _OF_MODEL, 0.01),
        _kernel("pair and count", "accelerator framework gpus", (*_LOAD, *_OF_MODEL), 0.02),
    ),
    SATURATED: _SERVING,
    TTFT: _SERVING,
    TPOT: _SERVING,
}
"""Where the likelihood starts, and its weak prior."""


def fit_kernels(
    head: str, ties: Integers, numbers: Floats, missed: Floats, seed: int
) -> tuple[tuple[ResidualKernel, ...], float]:
    """Return kernels and the variance of noise by marginal likelihood on a random part of the
    rows."""
    start = KERNELS[head]
    part = np.random.default_rng(seed).permutation(len(missed))[: LIKELIHOOD_ROWS[head]]
    ties, numbers = ties[part], numbers[part]
    wanted = missed[part] - np.median(missed[part])
    used = [numbers[:, list(kernel.numbers)] for kernel in start]
    masks = [
        np.prod([equal(ties[:, c], ties[:, c]) for c in kernel.ties], axis=0) for kernel in start
    ]
    first = np.log(np.array([*(v for k in start for v in (k.variance, *k.lengths)), _NOISE**2]))
    # Accidents are found first: one of them would pass for noise of all.
    times = fit_process(start, _NOISE**2, ties, numbers, missed[part])[1] / _NOISE**2

    def loss(at: Floats) -> tuple[float, Floats]:
        scaled, kernels = [], []
        for own, mask, (log_variance, *log_lengths) in zip(
            used, masks, _by_kernel(start, at), strict=True
        ):
            scaled.append(own * np.exp(-np.array(log_lengths)))
            square = 0.5 * (scaled[-1] ** 2).sum(axis=1)
            power = scaled[-1] @ scaled[-1].T
            power -= square[:, None]
            power -= square - log_variance
            kernels.append(np.exp(power, out=power) * mask)
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
        for own, each in zip(scaled, kernels, strict=True):
            share = np.multiply(pull, each, out=each)
            rows = share.sum(axis=1)
            # Half the sum over pairs of share times squared distance, in each dimension.
            apart = rows @ own**2 - (own * (share @ own)).sum(axis=0)
            slope += [0.5 * rows.sum(), *apart]
        slope.append(0.5 * np.exp(at[-1]) * (np.diag(pull) * times).sum())
        away = (at - first) / _PRIOR_SPREAD
        return float(value + 0.5 * away @ away), np.array(slope) + away / _PRIOR_SPREAD

    options = {"maxiter": LIKELIHOOD_STEPS}
    bounds = [(-12.0, 5.0)] * (len(first) - 1) + [
        (float(np.log(_LEAST_NOISE**2)), float(np.log(_MOST_NOISE**2)))
    ]
    best = minimize(loss, first, jac=True, method="L-BFGS-B", options=options, bounds=bounds).x
    found = [
        kernel.model_copy(
            update={"variance": _short(variance), "lengths": tuple(map(_short, lengths))}
        )
        for kernel, (variance, *lengths) in zip(start, _by_kernel(start, np.exp(best)), strict=True)
    ]
    return tuple(found), float(np.exp(best[-1]))


def _by_kernel(kernels: Sequence[ResidualKernel], parameters: Floats) -> list[Floats]:
    """Return the variance and lengths of each kernel; what is left at the end is the noise."""
    ends = np.cumsum([1 + len(kernel.numbers) for kernel in kernels])
    return np.split(parameters[: ends[-1]], ends[:-1])


def fit_process(
    kernels: tuple[ResidualKernel, ...],
    noise: float,
    ties: Integers,
    numbers: Floats,
    missed: Floats,
) -> tuple[Residual, Floats]:
    """Return the process learnt from all rows, and the variance of noise that each was given."""
    mean = float(np.median(missed))
    among = covariance(kernels, ties, numbers, ties, numbers)
    among[np.diag_indices(len(missed))] += noise
    inverse = _inverse(cholesky(among, lower=True, overwrite_a=True, check_finite=False))
    noises = np.full(len(missed), noise)
    usual_weights = weights = inverse @ (missed - mean)
    usual_precision = precision = np.diag(inverse)
    for _ in range(_ROBUST_ROUNDS):
        # What the others leave open of a row, and the usual noise.
        usual = np.sqrt(1 / precision - noises + noise)
        off = np.abs(weights) / precision
        noises = noise * np.maximum(1.0, (off / usual / _OUTLIER) ** 4)
        # Few rows get more noise: correct the inverse for those (Woodbury's identity).
        accidents = np.flatnonzero(noises > noise)
        part = inverse[accidents]
        inner = part[:, accidents] + np.diag(1 / (noises[accidents] - noise))
        shrunk = np.linalg.solve(inner, part)
        weights = usual_weights - shrunk.T @ usual_weights[accidents]
        precision = usual_precision - (part * shrunk).sum(axis=0)
    return Residual(kernels, mean, ties, numbers, weights), noises


def _inverse(factor: Floats) -> Floats:
    lower = np.tril(dpotri(factor, lower=1)[0])
    return np.asarray(lower + np.tril(lower, -1).T, dtype=np.float64)


def _short(value: float) -> float:
    return float(f"{value:.8g}")
