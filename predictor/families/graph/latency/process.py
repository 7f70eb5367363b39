"""The learnt time of a model graph: a sum of operators' times, and how far similar models are off.

``log t = log(terms . weights) + offset + k(descriptors) . pull``. ``terms``: seconds an image that
the time may be a sum of, with weights of at least 0: each group's roofline, its elements and its
MACs, some operators that cost more than their bytes, the launches. The weights say what each group
of operators costs in a setting (a platform with a precision, layout and software).
``descriptors``: what two models are compared by, free of size: shares of groups, intensities, and
how far the sums of arithmetic, memory and launches are from the roofline. A Gaussian process
(Matern 3/2, Rasmussen and Williams, equation 4.17) over them adds what the sum misses. Far from
every model that was measured it adds nothing: the sum stands alone. Numpy only.
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
"""Orders of magnitude alone: the weights learn the rest."""
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
"""The names of ``terms``."""
DESCRIPTORS = (
    "compute_of_roof", "memory_of_roof", "fused_of_roof", "launches_of_roof",
    *(f"time_{group}" for group in GROUPS), *(f"share_elements_{group}" for group in GROUPS),
    *(f"share_macs_{group}" for group in _MATRIX), *(f"share_nodes_{group}" for group in GROUPS),
    *(f"intensity_{group}" for group in _MATRIX),
)  # fmt: skip
"""The names of ``descriptors``."""
_GRAPH = {name: place for place, name in enumerate(GRAPH_FEATURES)}
_ROOF = {name: place for place, name in enumerate(ROOF_FEATURES)}


def _columns(graph: Floats, quantity: str, groups: tuple[str, ...] = GROUPS) -> Floats:
    return graph[:, [_GRAPH[f"{quantity}_{group}"] for group in groups]]


def terms(graph: Floats, roof: Floats, batch: Floats) -> Floats:
    """Return [rows, len(TERMS)] of ``graph_features``, ``roof_features`` and batches, a row
    each."""
    return np.column_stack([
        roof[:, _ROOF[f"{GROUPS[0]}_s"] :],
        _columns(graph, "elements") * _SECONDS_AN_ELEMENT,
        _columns(graph, "macs", _MATRIX) * _SECONDS_A_MAC,
        graph[:, [_GRAPH[name] for name in _DEAR]] * _SECONDS_AN_ELEMENT,
        graph[:, _GRAPH["nodes"]] / batch * _SECONDS_A_LAUNCH,
    ])  # fmt: skip


def descriptors(graph: Floats, roof: Floats, batch: Floats) -> Floats:
    """Return [rows, len(DESCRIPTORS)] of graph features, roof features and batches, a row each."""
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
"""Difficulty of a model that was measured itself; 1 more where nothing is like it."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Brings descriptors to one scale."""

    centre: Floats
    spread: Floats

    @classmethod
    def of(cls, rows: Floats) -> Scale:
        """Make the scale of measured models; a column that does not vary counts nothing."""
        spread = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(spread > 1e-9, spread, np.inf))

    def __call__(self, rows: Floats) -> Floats:
        return np.clip((rows - self.centre) / self.spread, -_CLIP, _CLIP)


def similarity(asked: Floats, points: Floats, length: float) -> Floats:
    """Return [asked, points] in (0, 1]: 1 for the same; ``length`` in spreads of an average
    column."""
    square = (asked * asked).sum(axis=1)[:, None] + (points * points).sum(axis=1)[None, :]
    square -= 2 * asked @ points.T
    return matern32(np.sqrt(np.maximum(square, 0) / asked.shape[1]) / length)


@dataclass(frozen=True, slots=True)
class LearntTimes:
    """What the process says of rows: an array of [rows] each."""

    log_seconds: Floats
    """Log seconds of one image."""
    difficulty: Floats
    """Factor that the width of an interval is proportional to: grows with the distance to what was
    measured."""


@dataclass(frozen=True, slots=True)
class Process:
    """The fitted process of one setting."""

    coefficients: Floats
    """[terms] at least 0."""
    scale: Scale
    points: Floats
    """[measured, columns] descriptors, scaled."""
    length: float
    offset: float
    pull: Floats
    """[measured]"""

    def base(self, terms: Floats) -> Floats:
        """Return [rows] log seconds of one image by the sum of operators alone."""
        return np.asarray(np.log(np.maximum(terms @ self.coefficients, _LEAST_S)))

    def __call__(self, terms: Floats, descriptors: Floats) -> LearntTimes:
        """Return the learnt times of [rows, terms] and [rows, columns] descriptors."""
        near = similarity(self.scale(descriptors), self.points, self.length)
        return LearntTimes(
            self.base(terms) + self.offset + near @ self.pull,
            DIFFICULTY_FLOOR + 1 - near.max(axis=1),
        )
