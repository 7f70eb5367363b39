"""Fit the latency model: non-negative weights of the terms, then a Gaussian process.

The weights minimise the squared relative error of the sum of terms. The Gaussian process predicts
the log of measured time / that sum.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from berth.predictor.families.graph.latency.process import (
    DescriptorScale,
    LatencyProcess,
    similarity,
)
from lab.ground.splits import folds_of
from lab.ground.table import Floats, Strings, Table

RIDGE = 0.05
"""Ridge penalty of the weights, each relative to the spread of its term."""
LENGTHS = (0.4, 0.6, 1.0)
NOISES = (0.02, 0.06)
_INNER = 3
_LEAST_ROWS = 20


@dataclass(frozen=True, slots=True)
class Knobs:
    """Hyper-parameters of the Gaussian process, chosen on inner folds."""

    length: float = 0.6
    noise: float = 0.06
    """Variance of the noise relative to the variance of the process (1)."""


def fit(
    terms: Floats,
    descriptors: Floats,
    log_seconds: Floats,
    knobs: Knobs,
    coefficients: Floats | None = None,
) -> LatencyProcess:
    """Fit the process of one setting from its rows.

    ``coefficients``: weights of the terms; None: fit them by ``weigh``.
    """
    if coefficients is None:
        coefficients = weigh(terms, np.exp(log_seconds))
    scale = DescriptorScale.of(descriptors)
    points = scale(descriptors)
    bare = LatencyProcess(coefficients, scale, points, knobs.length, 0.0, np.zeros(len(points)))
    missed = log_seconds - bare.base(terms)
    offset = float(np.median(missed))
    noisy = similarity(points, points, knobs.length) + knobs.noise * np.eye(len(points))
    pull = np.linalg.inv(noisy) @ (missed - offset)
    return LatencyProcess(coefficients, scale, points, knobs.length, offset, pull)


def weigh(terms: Floats, seconds: Floats, ridge: float = RIDGE) -> Floats:
    """Return the non-negative weight of each term that brings ``terms @ weights / seconds`` nearest
    to 1 (least squares with a ridge penalty)."""
    share = terms / seconds[:, None]
    spread = share.std(axis=0)
    size = np.maximum(spread, 1e-9 * max(float(spread.max()), 1e-30))
    used = spread > 0
    pull = ridge * np.sqrt(len(share)) * np.eye(int(used.sum()))
    matrix = np.vstack([share[:, used] / size[used], pull])
    wanted = np.concatenate([np.ones(len(share)), np.zeros(len(pull))])
    found = np.zeros(terms.shape[1])
    found[used] = nnls(matrix, wanted, maxiter=50 * matrix.shape[1])[0] / size[used]
    return found


@dataclass(frozen=True)
class Sample(Table):
    """Measured rows of several settings; one entry per row in each column."""

    setting: Strings
    group: Strings
    """Rows of the same group are held out together."""
    terms: Floats
    descriptors: Floats
    log_seconds: Floats


def fit_all(sample: Sample, knobs: Knobs) -> dict[str, LatencyProcess]:
    """Return the fitted process of each setting with at least ``_LEAST_ROWS`` rows."""
    found = {}
    for name in sorted(set(sample.setting.tolist())):
        own = np.flatnonzero(sample.setting == name)
        if len(own) >= _LEAST_ROWS:
            part = sample[own]
            found[name] = fit(part.terms, part.descriptors, part.log_seconds, knobs)
    return found


def predicted(fitted: dict[str, LatencyProcess], asked: Sample) -> Floats:
    """Return [rows, 3]: log seconds, difficulty, log seconds by the sum of terms alone.

    NaN where the setting of the row was not fitted.
    """
    found = np.full((len(asked), 3), np.nan)
    for name, one in fitted.items():
        rows = np.flatnonzero(asked.setting == name)
        if len(rows):
            whole = one(asked.terms[rows], asked.descriptors[rows])
            base = one.base(asked.terms[rows])
            found[rows] = np.column_stack([whole.log_seconds, whole.difficulty, base])
    return found


def learnt(train: Sample, asked: Sample, seed: int) -> Floats:
    """Return ``predicted`` of ``asked`` by a fit on ``train``; hyper-parameters by inner folds."""
    return predicted(fit_all(train, choose(train, seed)), asked)


def choose(sample: Sample, seed: int, settings: int = 3) -> Knobs:
    """Return the hyper-parameters with the least total relative error on inner folds of the groups.

    Only the ``settings`` settings with the most rows are tried.
    """
    names, counts = np.unique(sample.setting, return_counts=True)
    most = names[np.argsort(-counts, kind="stable")[:settings]]
    some = sample[np.flatnonzero(np.isin(sample.setting, most))]
    grid = [Knobs(*pair) for pair in itertools.product(LENGTHS, NOISES)]
    errors = np.zeros(len(grid))
    for fold in folds_of(some.group, _INNER, seed + 1000):
        for name in most.tolist():
            errors += _errors(some[fold.train], some[fold.test], name, grid)
    return grid[int(np.argmin(errors))]


def _errors(train: Sample, test: Sample, setting: str, grid: Sequence[Knobs]) -> Floats:
    """Return, for each entry of ``grid``, the sum of absolute relative errors in one setting."""
    own = train[np.flatnonzero(train.setting == setting)]
    asked = test[np.flatnonzero(test.setting == setting)]
    if len(own) < _LEAST_ROWS or not len(asked):
        return np.zeros(len(grid))
    weights = weigh(own.terms, np.exp(own.log_seconds))
    found = []
    for knobs in grid:
        process = fit(own.terms, own.descriptors, own.log_seconds, knobs, weights)
        guess = process(asked.terms, asked.descriptors).log_seconds
        found.append(float(np.abs(np.expm1(guess - asked.log_seconds)).sum()))
    return np.array(found)
