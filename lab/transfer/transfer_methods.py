"""Ways to predict a new platform from few samples: the shipped process and its baselines.

All predict log time over roofline. Each is fitted to the known platforms once, then to samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from berth.predictor.families.graph.transfer.cases import Cases, Codes
from berth.predictor.families.graph.transfer.kernel import Kernel
from berth.predictor.families.graph.transfer.posterior import nearest_residual
from berth.predictor.learning.graphs.posterior import Posterior
from lab.ground.table import Floats
from lab.transfer.platform_kernel import fit
from lab.transfer.transfer_cases import Measured

Guess: TypeAlias = Callable[[Codes, Floats], Floats]
"""(which cases were measured, their residuals) -> [cases] residuals."""
_LEAST_VARIANCE = 1e-4


@dataclass(frozen=True)
class Method:
    """A way to predict."""

    name: str
    what: str
    fit: Callable[[Measured, Cases, Kernel], Guess]
    """(known platforms, cases of the new one, kernel learnt on the known ones)."""


def process(known: Measured, asked: Cases, kernel: Kernel) -> Guess:
    """Return the one that ships."""
    return guess_of(fit(known, kernel), asked)


def guess_of(after: Posterior, asked: Cases) -> Guess:
    """Return the process, already fitted."""
    joint = after.joint(asked)
    return lambda samples, residual: joint.moved(samples, residual).mean


def alone(known: Measured, asked: Cases, kernel: Kernel) -> Guess:
    """Return the same covariance without what other platforms measured: what transfer is worth."""
    covariance = kernel.covariance(asked, asked)
    offset = float(known.residual.mean())

    def guess(samples: Codes, residual: Floats) -> Floats:
        if not len(samples):
            return np.full(len(asked), offset)
        matrix = covariance[np.ix_(samples, samples)] + kernel.noise**2 * np.eye(len(samples))
        weights = cho_solve(cho_factor(matrix), residual - offset)
        return np.asarray(offset + covariance[:, samples] @ weights)

    return guess


def roofline(known: Measured, asked: Cases, kernel: Kernel) -> Guess:
    """Return the share of the roofline that known platforms of the kind reach; one factor."""
    del kernel
    alike = _alike(known, asked)
    return _with_factor(np.full(len(asked), float(np.median(known.residual[alike]))))


def nearest(known: Measured, asked: Cases, kernel: Kernel) -> Guess:
    """Return the most similar case on the platform with the most similar data sheet; one factor."""
    alike = _alike(known, asked)
    found = nearest_residual(known.cases[alike], known.residual[alike], asked, kernel.scale)
    return _with_factor(found)


def trees(known: Measured, asked: Cases, kernel: Kernel) -> Guess:
    """Gradient-boosted trees over graph, place and data sheet; one factor."""
    from xgboost import XGBRegressor  # noqa: PLC0415 - of the extra, and slow to import

    del kernel
    model = XGBRegressor(
        n_estimators=600, max_depth=6, learning_rate=0.05, subsample=0.8, colsample_bytree=0.5,
        min_child_weight=4, tree_method="hist", n_jobs=1, random_state=0,
    )  # fmt: skip
    model.fit(_wide(known.cases), known.residual)
    return _with_factor(np.asarray(model.predict(_wide(asked)), np.float64))


def efficiencies(known: Measured, asked: Cases, kernel: Kernel) -> Guess:
    """An efficiency of each group of operators: a ridge whose prior is how those of known stacks of
    the kind lie (mean and variance of each coefficient over stacks)."""
    shape = _with_one(kernel, asked)
    rows = _with_one(kernel, known.cases)
    alike = _alike(known, asked)
    found, noises = [], []
    for stack in np.unique(known.stack[alike]):
        own = alike[known.stack[alike] == stack]
        inner = rows[own].T @ rows[own] + 0.1 * np.eye(rows.shape[1])
        found.append(np.linalg.solve(inner, rows[own].T @ known.residual[own]))
        noises.append(float(np.mean((known.residual[own] - rows[own] @ found[-1]) ** 2)))
    mean, noise = np.mean(found, axis=0), float(np.mean(noises))
    spread = np.maximum(np.var(found, axis=0), _LEAST_VARIANCE)

    def guess(samples: Codes, residual: Floats) -> Floats:
        given = shape[samples]
        precision = np.diag(1 / spread) + given.T @ given / noise
        moved = np.linalg.solve(precision, given.T @ (residual - given @ mean) / noise)
        return np.asarray(shape @ (mean + moved))

    return guess


METHODS = (
    Method("process", "covariance of platforms learnt on the others, own part from samples",
           process),
    Method("process alone", "the same covariance, nothing from other platforms", alone),
    Method("efficiencies", "an efficiency of each group of operators, prior of known stacks",
           efficiencies),
    Method("trees", "boosted trees over graph, roofline and data sheet, one factor", trees),
    Method("nearest", "most similar case on the most similar platform, one factor", nearest),
    Method("roofline", "roofline at the share known platforms reach, one factor", roofline),
)  # fmt: skip


def _alike(known: Measured, asked: Cases) -> Codes:
    """Return rows of the same kind of platform; all where there is none."""
    found = np.flatnonzero(known.cases.gpu == asked.gpu[0])
    return found if len(found) else np.arange(len(known))


def _with_factor(residual: Floats) -> Guess:
    def guess(samples: Codes, measured: Floats) -> Floats:
        away = measured - residual[samples]
        return residual + (float(np.median(away)) if len(samples) else 0.0)

    return guess


def _with_one(kernel: Kernel, cases: Cases) -> Floats:
    linear = kernel.scale.scaled(cases)[2]
    return np.column_stack((np.ones(len(cases)), linear, cases.fused))


def _wide(cases: Cases) -> Floats:
    return np.column_stack((cases.graph, cases.place, cases.spec, cases.gpu, cases.fused))
