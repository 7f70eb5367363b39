"""The splits and figures that all tables of model latency use; deterministic by seed.

``random rows`` (other rows of the same model are in training); ``unseen model`` (all rows of an
architecture, whatever its name, image size or device, are held out together); ``unseen model at any
size`` (likewise with names that end in another image size, as ``vit_tiny_patch16_384``); ``unseen
family`` (likewise of a family); ``unseen device`` (one device held out, k of its rows given back).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from berth.predictor.families.graph.latency.features import Floats
from berth.predictor.learning.folds import folds
from berth.predictor.learning.metrics import kendall
from lab.latency.data import Places, Runs, Strings, over_sizes

FOLDS = 5
RANDOM, MODEL, FAMILY, DEVICE = "random rows", "unseen model", "unseen family", "unseen device"
ANY_SIZE = "unseen model at any size"
WITHIN = 0.1


@dataclass(frozen=True, slots=True)
class Split:
    """Rows to learn from and to report on."""

    name: str
    train: Places
    test: Places
    device: str | None = None
    """The one held out."""
    given: Places | None = None
    """Of ``train``: the k rows of the device that is held out."""


def split(rows: Runs, kind: str, *, seed: int = 0, count: int = FOLDS) -> Iterator[Split]:
    """``count`` folds of ``RANDOM``, ``MODEL``, ``ANY_SIZE`` or ``FAMILY``. Raises UsageError:
    few groups."""
    groups = groups_of(rows, kind)
    everything = np.arange(len(rows))
    for held in folds(groups.tolist(), count, seed):
        test = np.array(held)
        yield Split(kind, np.setdiff1d(everything, test), test)


def groups_of(rows: Runs, kind: str) -> Strings:
    """[rows] what ``split`` holds out together."""
    if kind == ANY_SIZE:
        return over_sizes(rows)
    if kind == RANDOM:
        return np.arange(len(rows)).astype(str)
    return {MODEL: rows.architecture, FAMILY: rows.family}[kind]


def unseen_device(rows: Runs, k: int, *, seed: int = 0) -> Iterator[Split]:
    """One split a device; ``k`` of its rows, of as many models as can be, are in training.

    Rows of the models that were given are left out of the test, so that few-shot figures are of
    models never measured there.
    """
    for device in sorted(set(rows.device.tolist())):
        own = np.flatnonzero(rows.device == device)
        given = np.random.default_rng(seed).permutation(own)
        _, first = np.unique(rows.architecture[given], return_index=True)
        given = np.sort(given[np.sort(first)[:k]]) if k else given[:0]
        test = own[~np.isin(rows.architecture[own], rows.architecture[given])]
        train = np.sort(np.concatenate((np.flatnonzero(rows.device != device), given)))
        yield Split(f"{DEVICE}, {k} samples", train, test, device, given)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of predicted against measured seconds."""

    rows: int
    mape: float
    """Mean of |predicted / measured - 1|."""
    median: float
    within: float
    """Acc(10 %): share of rows within 10 %."""
    tau: float
    """Kendall's, over (at most 2,000) rows of different models."""


def figures(
    measured: Floats, predicted: Floats, models: Places | Strings, *, seed: int = 0
) -> Figures:
    """``models`` tells rows of one model; seconds of any scale, above 0."""
    error = np.abs(predicted / measured - 1)
    some = np.random.default_rng(seed).permutation(len(error))[:2000]
    return Figures(
        len(error), float(error.mean()), float(np.median(error)), float((error <= WITHIN).mean()),
        kendall(np.log(measured[some]), np.log(predicted[some]), models[some].tolist()),
    )  # fmt: skip
