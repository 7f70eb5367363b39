"""Corrections of a model that was measured in other settings, by its residuals there.

For a split by random rows. The residuals of each setting (leave-one-out) have a covariance over
settings, estimated over models measured in both; a missing residual is its conditional mean given
those that were measured (kriging in the settings).
"""

from __future__ import annotations

import numpy as np

from lab.ground.table import Floats
from lab.latency.fit_latency import Fitted, Sample

_SHRINK = 20.0
"""Models for which a correlation counts half."""
_OWN_SHARE = 0.05
"""Of a setting's variance that no other setting explains."""


def corrections(fitted: dict[str, Fitted], train: Sample, asked: Sample) -> Floats:
    """Return [asked] to be added to log seconds; ``group`` names the network at its image size."""
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
    """Return [settings, settings] from pairs measured in both, shrunk, made positive."""
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
