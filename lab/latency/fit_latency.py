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

_SHRINK = 20.0
"""Shrinkage: a correlation from this many common models is halved."""
_OWN_SHARE = 0.05
"""Share of a setting's variance that no other setting explains."""


def corrections(fitted: dict[str, Fitted], train: Sample, asked: Sample) -> Floats:
    """Return the correction of log seconds of each asked row, from the network's known errors.

    The errors of a network in other settings predict its error in this setting; 0 for a network
    without training rows. ``group`` must name the network and its image size.
    """
    names = sorted(fitted)
    place = {name: n for n, name in enumerate(names)}
    groups = sorted(set(train.group.tolist()))
    row_of = {group: n for n, group in enumerate(groups)}
    off = np.full((len(groups), len(names)), np.nan)
    for name, one in fitted.items():
        own = np.flatnonzero(train.setting == name)
        where = [row_of[group] for group in train.group[own].tolist()]
        off[where, place[name]] = one.left_out
    covariance = _covariance(off)
    found = np.zeros(len(asked))
    pairs = zip(asked.group.tolist(), asked.setting.tolist(), strict=True)
    for n, (group, name) in enumerate(pairs):
        if group not in row_of or name not in place:
            continue
        line = off[row_of[group]]
        known = np.flatnonzero(~np.isnan(line))
        inner = covariance[np.ix_(known, known)]
        inner = inner + _OWN_SHARE * np.diag(np.diag(inner))
        found[n] = covariance[place[name], known] @ np.linalg.solve(inner, line[known])
    return found


def _covariance(off: Floats) -> Floats:
    """Return the covariance of errors, [settings, settings], from networks measured in both.

    Correlations from few networks are shrunk; the result is positive definite.
    """
    known = ~np.isnan(off)
    value = np.where(known, np.clip(off, -1, 1), 0.0)
    both = known.T.astype(float) @ known
    squares = value.T @ value
    sigma = np.sqrt(np.diag(squares) / np.maximum(np.diag(both), 1))
    first = (value**2).T @ known
    correlation = squares / np.sqrt(np.maximum(first * first.T, 1e-12))
    correlation *= both / (both + _SHRINK)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    correlation = (vectors * np.maximum(values, 1e-4)) @ vectors.T
    return np.asarray(correlation * sigma[:, None] * sigma[None, :])


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


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted process and its leave-one-out errors."""

    process: LatencyProcess
    left_out: Floats
    """[rows] log of measured time / time predicted from the other rows."""


def fit(
    terms: Floats,
    descriptors: Floats,
    log_seconds: Floats,
    knobs: Knobs,
    coefficients: Floats | None = None,
) -> Fitted:
    """Fit the process of one setting from its rows.

    ``coefficients``: weights of the terms; None: fit them by ``weigh``. Leave-one-out errors are by
    the closed form of Rasmussen and Williams (2006), equation 5.12.
    """
    if coefficients is None:
        coefficients = weigh(terms, np.exp(log_seconds))
    scale = DescriptorScale.of(descriptors)
    points = scale(descriptors)
    bare = LatencyProcess(coefficients, scale, points, knobs.length, 0.0, np.zeros(len(points)))
    missed = log_seconds - bare.base(terms)
    offset = float(np.median(missed))
    noisy = similarity(points, points, knobs.length) + knobs.noise * np.eye(len(points))
    inverse = np.linalg.inv(noisy)
    pull = inverse @ (missed - offset)
    process = LatencyProcess(coefficients, scale, points, knobs.length, offset, pull)
    return Fitted(process, pull / np.diag(inverse))


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


def fit_all(sample: Sample, knobs: Knobs) -> dict[str, Fitted]:
    """Return the fitted process of each setting with at least ``_LEAST_ROWS`` rows."""
    found = {}
    for name in sorted(set(sample.setting.tolist())):
        own = np.flatnonzero(sample.setting == name)
        if len(own) >= _LEAST_ROWS:
            part = sample[own]
            found[name] = fit(part.terms, part.descriptors, part.log_seconds, knobs)
    return found


def predicted(fitted: dict[str, Fitted], asked: Sample) -> Floats:
    """Return [rows, 3]: log seconds, difficulty, log seconds by the sum of terms alone.

    NaN where the setting of the row was not fitted.
    """
    found = np.full((len(asked), 3), np.nan)
    for name, one in fitted.items():
        rows = np.flatnonzero(asked.setting == name)
        if len(rows):
            whole = one.process(asked.terms[rows], asked.descriptors[rows])
            base = one.process.base(asked.terms[rows])
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
        process = fit(own.terms, own.descriptors, own.log_seconds, knobs, weights).process
        guess = process(asked.terms, asked.descriptors).log_seconds
        found.append(float(np.abs(np.expm1(guess - asked.log_seconds)).sum()))
    return np.array(found)
