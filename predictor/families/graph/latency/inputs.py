"""The two views of a model that the learnt time is made of.

``terms``: seconds an image that the time may be a sum of, with weights of at least 0: each group's
roofline, its elements and its MACs, some operators that cost more than their bytes, the launches.
``descriptors``: what two models are compared by, free of size: shares of groups, intensities, and
how far the sums of arithmetic, memory and launches are from the roofline. Numpy only.
"""

from __future__ import annotations

import numpy as np

from berth.predictor.core.arrays import Floats
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


def _columns(graph: Floats, what: str, groups: tuple[str, ...] = GROUPS) -> Floats:
    return graph[:, [_GRAPH[f"{what}_{group}"] for group in groups]]


def terms(graph: Floats, roof: Floats, batch: Floats) -> Floats:
    """[rows, len(TERMS)] of ``graph_features``, ``roof_features`` and batches, a row each."""
    return np.column_stack([
        roof[:, _ROOF[f"{GROUPS[0]}_s"] :],
        _columns(graph, "elements") * _SECONDS_AN_ELEMENT,
        _columns(graph, "macs", _MATRIX) * _SECONDS_A_MAC,
        graph[:, [_GRAPH[name] for name in _DEAR]] * _SECONDS_AN_ELEMENT,
        graph[:, _GRAPH["nodes"]] / batch * _SECONDS_A_LAUNCH,
    ])  # fmt: skip


def descriptors(graph: Floats, roof: Floats, batch: Floats) -> Floats:
    """[rows, len(DESCRIPTORS)] of the same."""
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
