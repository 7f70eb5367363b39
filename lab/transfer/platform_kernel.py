"""The covariance of platforms, learnt from those that are known: marginal likelihood.

The priors over amplitudes are wide (a factor e either way) and were set before anything was fitted:
a level counts less the fewer platforms share it, a model's own effect less than a smooth function.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize

from berth.predictor.families.graph.transfer.cases import Cases
from berth.predictor.families.graph.transfer.kernel import (
    FeatureScale,
    TransferKernel,
    resemblances,
    squared,
)
from berth.predictor.learning.graphs.posterior import LatencyPosterior, fit_cases
from lab.ground.table import Floats
from lab.transfer.transfer_cases import Measured

AMPLITUDES = np.array([
    [0.30, 0.20, 0.30, 0.10],
    [0.50, 0.10, 0.20, 0.10],
    [0.20, 0.10, 0.15, 0.10],
    [0.20, 0.15, 0.10, 0.08],
    [0.20, 0.10, 0.10, 0.05],
    [0.10, 0.05, 0.05, 0.03],
])  # fmt: skip
"""[levels, terms] prior medians."""
LENGTH, NOISE = 1.0, 0.05
ARCHITECTURES = 90
STEPS = 30


def learn(table: Measured, *, seed: int = 0, most: int = ARCHITECTURES) -> TransferKernel:
    """Return a kernel from all rows of ``most`` of the table's architectures, drawn by ``seed``."""
    names = np.unique(table.architecture)
    some = np.random.default_rng(seed).permutation(names)[:most]
    part = table[np.flatnonzero(np.isin(table.architecture, some))]
    scale = FeatureScale.of(table.cases)
    start = np.concatenate((np.log(AMPLITUDES).ravel(), np.log([LENGTH, LENGTH, NOISE])))
    loss = _loss(part.cases, part.residual - part.residual.mean(), scale, start)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return kernel(scale, np.exp(found.x))


def fit(table: Measured, kernel: TransferKernel) -> LatencyPosterior:
    """Return the process after all rows; exact, O(n^3)."""
    noise = np.full(len(table), kernel.noise)
    offset = float(table.residual.mean())
    return fit_cases(table.cases, table.residual, kernel, offset, noise=noise, own=None)


def kernel(scale: FeatureScale, values: Floats) -> TransferKernel:
    """Make the kernel of amplitudes row by row, the two lengths and the noise."""
    many = AMPLITUDES.size
    return TransferKernel(scale, values[:many].reshape(AMPLITUDES.shape), *values[many:].tolist())


def _loss(
    cases: Cases, wanted: Floats, scale: FeatureScale, start: Floats
) -> Callable[[Floats], tuple[float, Floats]]:
    """Negative log of evidence times prior, and its gradient; of logarithms of the parameters."""
    graph, place, _ = own = scale.scaled(cases)
    graph_apart, place_apart = squared(graph, graph), squared(place, place)
    shared = [found for _, found in resemblances(cases, cases)]
    many, levels = len(cases), len(shared)

    def loss(given: Floats) -> tuple[float, Floats]:
        made = kernel(scale, np.exp(given))
        linear, smooth, same = made.terms(cases, cases, own, own)
        terms = (None, linear, smooth, same)
        square = made.amplitudes**2
        total = np.zeros((many, many))
        for level in range(levels):
            inner = sum(square[level, n] * terms[n] for n in range(1, len(terms)))
            total += shared[level] * (square[level, 0] + inner)
        total[np.diag_indices(many)] += made.noise**2
        factor = cholesky(total, lower=True, overwrite_a=True, check_finite=False)
        weights = cho_solve((factor, True), wanted)
        slope = np.outer(weights, weights) - cho_solve((factor, True), np.eye(many))
        gradient = np.zeros_like(given)
        smoothed = np.zeros((many, many))
        for level in range(levels):
            seen = slope * shared[level]
            for n, term in enumerate(terms):
                part = seen.sum() if term is None else float(np.vdot(seen, term))
                gradient[level * len(terms) + n] = -square[level, n] * part
            smoothed += square[level, 2] * seen
        smoothed *= smooth
        gradient[-3] = -0.5 * float(np.vdot(smoothed, graph_apart)) / made.graph_length**2
        gradient[-2] = -0.5 * float(np.vdot(smoothed, place_apart)) / made.place_length**2
        gradient[-1] = -(made.noise**2) * float(np.trace(slope))
        away = given - start
        value = 0.5 * float(wanted @ weights) + float(np.log(np.diag(factor)).sum())
        return value + 0.5 * float(away @ away), gradient + away

    return loss
