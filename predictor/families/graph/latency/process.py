"""Model the time of a graph as a weighted sum of operator times, corrected by similar measured
models.

``log t = log(terms . weights) + offset + k(descriptors) . pull``, separately for each setting (a
platform with a precision, layout and software):

``t``: seconds of one image.
``terms``: seconds per image that the time may be a sum of: roofline, elements and MACs of each
group of operators, operators that cost more than their bytes, and launches.
``weights``: fitted factors of at least 0, one for each term.
``offset``: fitted constant in log seconds.
``descriptors``: features that compare models independent of size: shares of groups, intensities,
and the sums of arithmetic, memory and launch time relative to the roofline.
``k``: covariance of a Gaussian process (Matern 3/2, Rasmussen and Williams, equation 4.17).
``pull``: fitted weight, in log seconds, of each measured model.

Far from all measured models ``k`` is 0 and the weighted sum alone predicts. Needs numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats, matern32
from berth.predictor.families.graph.latency.features import (
    GRAPH_FEATURES,
    GROUPS,
    MATRIX_GROUPS,
    ROOF_FEATURES,
)

_SECONDS_AN_ELEMENT, _SECONDS_A_MAC, _SECONDS_A_LAUNCH = 1e-12, 1e-14, 1e-6
"""Orders of magnitude of seconds per unit; the fitted weights correct them."""
_LAUNCH_S = 3e-6
_DEAR = (
    "written", "elements_gelu", "elements_sigmoid", "elements_layer_norm", "elements_batch_norm",
    "elements_narrow_matmul",
)  # fmt: skip
_MATRIX = GROUPS[:MATRIX_GROUPS]
TERMS = (
    *(f"roof_{group}" for group in GROUPS), *(f"elements_{group}" for group in GROUPS),
    *(f"macs_{group}" for group in _MATRIX), *_DEAR, "launches",
)  # fmt: skip
"""Names of the columns of ``terms``."""
DESCRIPTORS = (
    "compute_of_roof", "memory_of_roof", "fused_of_roof", "launches_of_roof",
    *(f"time_{group}" for group in GROUPS), *(f"share_elements_{group}" for group in GROUPS),
    *(f"share_macs_{group}" for group in _MATRIX), *(f"share_nodes_{group}" for group in GROUPS),
    *(f"intensity_{group}" for group in _MATRIX),
)  # fmt: skip
"""Names of the columns of ``descriptors``."""
_GRAPH = {name: place for place, name in enumerate(GRAPH_FEATURES)}
_ROOF = {name: place for place, name in enumerate(ROOF_FEATURES)}


def _columns(graph: Floats, quantity: str, groups: tuple[str, ...] = GROUPS) -> Floats:
    return graph[:, [_GRAPH[f"{quantity}_{group}"] for group in groups]]


def terms(graph: Floats, roof: Floats, batch: Floats) -> Floats:
    """Return the terms of the sum, [rows, len(TERMS)], in seconds per image, from rows of
    ``graph_features``, ``roof_features`` and batches."""
    return np.column_stack([
        roof[:, _ROOF[f"{GROUPS[0]}_s"] :],
        _columns(graph, "elements") * _SECONDS_AN_ELEMENT,
        _columns(graph, "macs", _MATRIX) * _SECONDS_A_MAC,
        graph[:, [_GRAPH[name] for name in _DEAR]] * _SECONDS_AN_ELEMENT,
        graph[:, _GRAPH["nodes"]] / batch * _SECONDS_A_LAUNCH,
    ])  # fmt: skip


def descriptors(graph: Floats, roof: Floats, batch: Floats) -> Floats:
    """Return the descriptors, [rows, len(DESCRIPTORS)], that compare models, from rows of
    ``graph_features``, ``roof_features`` and batches."""
    whole = roof[:, _ROOF["roof_s"]]
    sums = [roof[:, _ROOF[name]] / whole for name in ("compute_s", "memory_s", "fused_s")]
    launches = roof[:, _ROOF["launches"]] / batch * _LAUNCH_S / whole
    macs, elements = _columns(graph, "macs", _MATRIX), _columns(graph, "elements")
    return np.column_stack([
        *(np.log(np.maximum(x, 1e-3)) for x in sums), np.log(launches),
        roof[:, _ROOF[f"{GROUPS[0]}_s"] :] / whole[:, None],
        elements / graph[:, [_GRAPH["elements"]]],
        macs / np.maximum(graph[:, [_GRAPH["macs"]]], 1),
        _columns(graph, "nodes") / graph[:, [_GRAPH["nodes"]]],
        np.log(macs / np.maximum(elements[:, :MATRIX_GROUPS], 1) + 1e-3),
    ])  # fmt: skip


_CLIP = 4.0
_LEAST_S = 1e-12
DIFFICULTY_FLOOR = 0.35
"""Difficulty of a model that was itself measured; a model unlike all measured models has 1 more."""


@dataclass(frozen=True, slots=True)
class DescriptorScale:
    """Means and standard deviations that standardise descriptors."""

    centre: Floats
    spread: Floats

    @classmethod
    def of(cls, rows: Floats) -> DescriptorScale:
        """Return the scale of measured models' descriptors; a constant column is scaled to 0."""
        spread = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(spread > 1e-9, spread, np.inf))

    def __call__(self, rows: Floats) -> Floats:
        return np.clip((rows - self.centre) / self.spread, -_CLIP, _CLIP)


def similarity(asked: Floats, points: Floats, length: float) -> Floats:
    """Return the similarity of requested and measured models, [asked, points], in (0, 1]; 1: equal
    descriptors. ``length``: length scale, in standard deviations of an average column."""
    square = (asked * asked).sum(axis=1)[:, None] + (points * points).sum(axis=1)[None, :]
    square -= 2 * asked @ points.T
    return matern32(np.sqrt(np.maximum(square, 0) / asked.shape[1]) / length)


@dataclass(frozen=True, slots=True)
class LearntTimes:
    """Predictions of the process for several models, as arrays of shape [rows]."""

    log_seconds: Floats
    """Log seconds of one image."""
    difficulty: Floats
    """Factor on the interval's width in log time; grows with the distance to the measured
    models."""


@dataclass(frozen=True, slots=True)
class LatencyProcess:
    """The fitted time model of one setting (platform, precision, layout, software)."""

    coefficients: Floats
    """[terms] fitted weights, at least 0."""
    scale: DescriptorScale
    points: Floats
    """[measured, columns] standardised descriptors of the measured models."""
    length: float
    offset: float
    pull: Floats
    """[measured] fitted weight of each measured model, in log seconds."""

    def base(self, terms: Floats) -> Floats:
        """Return [rows]: log seconds of one image by the weighted sum of operators, without the
        correction."""
        return np.asarray(np.log(np.maximum(terms @ self.coefficients, _LEAST_S)))

    def __call__(self, terms: Floats, descriptors: Floats) -> LearntTimes:
        """Return the predicted times from terms [rows, terms] and descriptors [rows, columns]."""
        near = similarity(self.scale(descriptors), self.points, self.length)
        return LearntTimes(
            self.base(terms) + self.offset + near @ self.pull,
            DIFFICULTY_FLOOR + 1 - near.max(axis=1),
        )
