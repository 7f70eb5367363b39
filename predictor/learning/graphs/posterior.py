"""The process after the cases of known platforms, and after few samples of a new one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from berth.predictor.core.arrays import Floats
from berth.predictor.families.graph.transfer.cases import Cases, Codes
from berth.predictor.families.graph.transfer.kernel import LEVELS, OWN, Kernel, Own

NOVELTY_SCALES = (0.5, 1.0, 2.0, 3.0)
"""Factors on a new platform's own levels that its samples choose among: how unlike others it is."""
SHIFTS = (0.0, 0.5, 1.5)
"""Standard deviations of one more constant of its own: another framework, other clocks."""
NOISES = (1.0, 3.0, 8.0)
"""Factors on the noise: how well it was measured."""


@dataclass(frozen=True)
class Posterior:
    """After the cases that were learnt from."""

    kernel: Kernel
    offset: float
    cases: Cases
    factor: Floats
    """Lower Cholesky factor of their covariance."""
    weights: Floats

    def joint(self, asked: Cases, *, new_platform: bool = True) -> Joint:
        """Return the mean and covariance of cases of one new platform before any sample.

        ``new_platform=False``: of known ones; nothing is then taken for their own.
        """
        across = self.kernel.covariance(self.cases, asked)
        half = solve_triangular(self.factor, across, lower=True, check_finite=False)
        whole = self.kernel.covariance(asked, asked)
        own = (
            own_levels(self.kernel).covariance(asked, asked)
            if new_platform
            else np.zeros_like(whole)
        )
        return Joint(
            across.T @ self.weights + self.offset, whole - own - half.T @ half, own,
            self.kernel.noise,
        )  # fmt: skip


def fit_cases(
    cases: Cases, residual: Floats, kernel: Kernel, offset: float, *, noise: Floats,
    own: Own | None,
) -> Posterior:  # fmt: skip
    """Fit the process to cases; ``noise``, ``own``: of each case, [n]."""
    covariance = kernel.covariance(cases, cases, own)
    covariance[np.diag_indices(len(cases))] += noise**2
    factor = cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
    weights = cho_solve((factor, True), residual - offset)
    return Posterior(kernel, offset, cases, factor, weights)


def own_levels(kernel: Kernel) -> Kernel:
    """Return the part of a kernel that a new platform has for itself."""
    amplitudes = kernel.amplitudes.copy()
    amplitudes[[n for n, level in enumerate(LEVELS) if level not in OWN]] = 0.0
    return Kernel(
        kernel.scale, amplitudes, kernel.graph_length, kernel.place_length, kernel.noise
    )  # fmt: skip


@dataclass(frozen=True)
class Moved:
    """What few samples make of it."""

    mean: Floats
    novelty_scale: float
    shift: float
    noise: float
    weights: Floats
    """[samples]"""
    left_out: Floats
    """[samples] each predicted from those of other groups and from known platforms."""


@dataclass(frozen=True)
class Joint:
    """Mean and covariance of log time over roofline time, of cases of one new platform."""

    mean: Floats
    shared: Floats
    """Covariance by what it has in common with known platforms, after these."""
    own: Floats
    """Covariance by its own levels."""
    noise: float

    def moved(self, samples: Codes, residual: Floats, groups: Codes | None = None) -> Moved:
        """Return all cases after ``residual`` was measured of ``samples``.

        ``groups``: [samples] those of one (a model) are left out together; default: each alone.
        The factors on its own levels and on the noise, and the shift, are means over a grid,
        weighed by the evidence of the samples and a prior that holds to 1, 1 and 0.
        """
        if not len(samples):
            return Moved(self.mean, 1.0, 0.0, self.noise, np.zeros(0), np.zeros(0))
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
        return Moved(self.mean + across @ weights, novelty_scale, shift, noise, weights, left_out)

    def advised(self, pool: Codes, count: int) -> Codes:
        """Choose of ``pool`` the cases whose measurement leaves least variance over all of it, the
        best first (greedy; Krause, Singh, Guestrin, JMLR 2008, by the sum of variances)."""
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
