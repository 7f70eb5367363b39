"""The Gaussian process of model-graph latencies, given known platforms and a few samples of a new
one.

A case is one measured latency: a model graph, a platform and a software stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from berth.predictor.core.arrays import Floats
from berth.predictor.families.graph.transfer.cases import Cases, Codes
from berth.predictor.families.graph.transfer.kernel import LEVELS, OWN, Own, TransferKernel

NOVELTY_SCALES = (0.5, 1.0, 2.0, 3.0)
"""Grid of factors on the variance terms of a new platform alone: how much it differs from known
platforms."""
SHIFTS = (0.0, 0.5, 1.5)
"""Grid of standard deviations of a constant offset of the new platform (other framework or clocks),
log time."""
NOISES = (1.0, 3.0, 8.0)
"""Grid of factors on the noise deviation: how accurately the new platform was measured."""


@dataclass(frozen=True)
class LatencyPosterior:
    """The Gaussian process of log latency fitted to the measured cases of known platforms."""

    kernel: TransferKernel
    offset: float
    cases: Cases
    factor: Floats
    """Lower Cholesky factor of the covariance of the cases."""
    weights: Floats

    def joint(self, asked: Cases, *, new_platform: bool = True) -> JointLatencies:
        """Return the mean and covariance of log latencies on one new platform before any sample of
        it.

        ``new_platform=False``: the cases are of known platforms, and the variance of new platforms
        is 0.
        """
        across = self.kernel.covariance(self.cases, asked)
        half = solve_triangular(self.factor, across, lower=True, check_finite=False)
        whole = self.kernel.covariance(asked, asked)
        own = (
            own_levels(self.kernel).covariance(asked, asked)
            if new_platform
            else np.zeros_like(whole)
        )
        return JointLatencies(
            across.T @ self.weights + self.offset, whole - own - half.T @ half, own,
            self.kernel.noise,
        )  # fmt: skip


def fit_cases(
    cases: Cases, residual: Floats, kernel: TransferKernel, offset: float, *, noise: Floats,
    own: Own | None,
) -> LatencyPosterior:  # fmt: skip
    """Return the Gaussian process fitted to the measured cases of known platforms.

    ``residual``: log time over roofline time; ``noise``: [cases] standard deviations; ``own``:
    novelty scale and shift of each case's platform, None for the kernel's own.
    """
    covariance = kernel.covariance(cases, cases, own)
    covariance[np.diag_indices(len(cases))] += noise**2
    factor = cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
    weights = cho_solve((factor, True), residual - offset)
    return LatencyPosterior(kernel, offset, cases, factor, weights)


def own_levels(kernel: TransferKernel) -> TransferKernel:
    """Return the kernel with only those variance terms that are specific to a platform."""
    amplitudes = kernel.amplitudes.copy()
    amplitudes[[n for n, level in enumerate(LEVELS) if level not in OWN]] = 0.0
    return TransferKernel(
        kernel.scale, amplitudes, kernel.graph_length, kernel.place_length, kernel.noise
    )  # fmt: skip


@dataclass(frozen=True)
class UpdatedLatencies:
    """Predictions for a new platform after some of its latencies were measured."""

    mean: Floats
    novelty_scale: float
    shift: float
    noise: float
    weights: Floats
    """[samples]"""
    left_out: Floats
    """[samples] each predicted from samples of other groups and from known platforms."""


@dataclass(frozen=True)
class JointLatencies:
    """Mean and covariance of log latency over roofline time for model graphs on one new
    platform."""

    mean: Floats
    shared: Floats
    """[cases, cases] covariance shared with known platforms, given their cases."""
    own: Floats
    """[cases, cases] covariance from the platform-specific terms of the kernel."""
    noise: float

    def moved(
        self, samples: Codes, residual: Floats, groups: Codes | None = None
    ) -> UpdatedLatencies:
        """Return predictions for all cases after ``residual`` was measured for some of them.

        ``samples``: indices of the measured cases. ``groups``: [samples] group (a model) of each; a
        group is left out as a whole; default: every sample alone. Novelty scale, noise factor and
        shift are averaged over a grid, weighted by the marginal likelihood of the samples and a
        prior centred on 1, 1 and 0.
        """
        if not len(samples):
            return UpdatedLatencies(self.mean, 1.0, 0.0, self.noise, np.zeros(0), np.zeros(0))
        at = np.ix_(samples, samples)
        wanted = residual - self.mean[samples]

        def solved(novelty_scale: float, shift: float, noise: float) -> tuple[Floats, bool]:
            matrix = self.shared[at] + novelty_scale**2 * self.own[at] + shift**2
            matrix[np.diag_indices(len(samples))] += noise**2
            return cho_factor(matrix, lower=True)  # type: ignore[no-any-return]

        grid = np.array(list(product(NOVELTY_SCALES, SHIFTS, NOISES)))
        scores = np.empty(len(grid))
        for place, (novelty_scale, shift, rough) in enumerate(grid.tolist()):
            factor = solved(novelty_scale, shift, rough * self.noise)
            scores[place] = -0.5 * float(wanted @ cho_solve(factor, wanted)) - float(
                np.log(np.diag(factor[0])).sum()
            )
            scores[place] -= 0.5 * (np.log(novelty_scale) ** 2 + np.log(rough) ** 2) + shift
        chance = np.exp(scores - scores.max())
        chance /= chance.sum()
        novelty_scale, noise = np.exp(chance @ np.log(grid[:, [0, 2]])).tolist()
        shift = float(np.sqrt(chance @ grid[:, 1] ** 2))
        noise *= self.noise
        factor = solved(novelty_scale, shift, noise)
        weights = cho_solve(factor, wanted)
        across = self.shared[:, samples] + novelty_scale**2 * self.own[:, samples] + shift**2
        alone = np.arange(len(samples)) if groups is None else groups
        precision = cho_solve(factor, np.eye(len(samples)))
        left_out = np.empty(len(samples))
        for group in np.unique(alone):
            held = np.flatnonzero(alone == group)
            left_out[held] = residual[held] - np.linalg.solve(
                precision[np.ix_(held, held)], weights[held]
            )
        return UpdatedLatencies(
            self.mean + across @ weights, novelty_scale, shift, noise, weights, left_out
        )

    def advised(self, pool: Codes, count: int) -> Codes:
        """Return the ``count`` cases of ``pool`` whose measurement leaves the least total variance,
        best first.

        Greedy choice; Krause, Singh, Guestrin, JMLR 2008, with the sum of variances as criterion.
        """
        left = self.shared[np.ix_(pool, pool)] + self.own[np.ix_(pool, pool)]
        open_ = np.ones(len(pool), bool)
        chosen: list[int] = []
        for _ in range(min(count, len(pool))):
            gain = np.where(open_, (left**2).sum(axis=0) / (np.diag(left) + self.noise**2), -1.0)
            best = int(np.argmax(gain))
            chosen.append(best)
            open_[best] = False
            left -= np.outer(left[:, best], left[best]) / (left[best, best] + self.noise**2)
        return np.asarray(pool[chosen], np.int64)
