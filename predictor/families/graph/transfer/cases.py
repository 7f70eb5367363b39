"""Compute the features of a case: a graph at one batch, on one platform, with one software stack.

``graph`` columns do not depend on the platform: logarithms of work and size, and shares of
operations, elements and nodes by group of operators. ``place`` columns depend on the platform: the
share of roofline time by group of operators, the ratio of arithmetic to memory time, and of launch
to roofline time. The Gaussian process learns log(measured time / roofline time).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from berth.predictor.core.arrays import Floats
from berth.predictor.families.graph.latency.features import (
    GRAPH_FEATURES,
    GROUPS,
    MATRIX_GROUPS,
    ROOF_FEATURES,
    GraphWork,
    graph_features,
    roof_features,
)
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof

Codes: TypeAlias = NDArray[np.int64]

NOBODY = -1
"""Code of a device, stack or model that is shared with no other case."""
_OF = {name: place for place, name in enumerate(GRAPH_FEATURES)}
_ROOF = {name: place for place, name in enumerate(ROOF_FEATURES)}
_LOGS = ("macs", "elements", "nodes", "weights", "parameters", "depth", "input_elements",
         "widest_written", "intensity")  # fmt: skip
_MEANS = ("mean_channels", "mean_positions", "mean_inner", "macs_intensity_below_16",
          "macs_intensity_below_64", "macs_intensity_below_256", "macs_few_channels",
          "macs_strided")  # fmt: skip
_PARTS = ("elements_narrow_matmul", "elements_gelu", "elements_sigmoid", "elements_relu",
          "elements_layer_norm", "elements_batch_norm")  # fmt: skip
GRAPH = (
    "log_batch", *(f"log_{name}" for name in _LOGS), *_MEANS, *(f"share_{name}" for name in _PARTS),
    *(f"macs_{group}" for group in GROUPS[:MATRIX_GROUPS]),
    *(f"elements_{group}" for group in GROUPS), *(f"nodes_{group}" for group in GROUPS),
)  # fmt: skip
PLACE = ("log_balance", "log_launching", "fused", *(f"seconds_{group}" for group in GROUPS))
SPEC = ("dram", "matrix", "vector", "l2")
_SPEC_WEIGHT = np.array([1.0, 0.7, 0.5, 0.3])
"""Weights of the log ratios of two platforms' rates; memory bandwidth has the largest weight
because it bounds most models."""
_LAUNCH_S = 5e-6
_LAUNCHING = (-8.0, 3.0)


@dataclass(frozen=True)
class Cases:
    """Features of n cases, as arrays; a case is one model at a batch on one platform."""

    graph: Floats
    """[n, len(GRAPH)] features that do not depend on the platform."""
    place: Floats
    """[n, len(PLACE)] features of the graph on the platform."""
    spec: Floats
    """[n, len(SPEC)] logs of the platform's rates, multiplied by ``_SPEC_WEIGHT``."""
    log_roof: Floats
    """[n] log of the roofline time of one image, in seconds."""
    gpu: Codes
    """[n] 1 on a GPU, 0 on a CPU."""
    fused: Codes
    """[n] 1 where the framework fuses operators (torch.compile, onnxruntime), else 0."""
    device: Codes
    stack: Codes
    """[n] code of the combination of device and software."""
    model: Codes

    def __len__(self) -> int:
        return len(self.log_roof)

    def __getitem__(self, rows: Codes | NDArray[np.bool_] | slice) -> Cases:
        return Cases(**{column.name: getattr(self, column.name)[rows] for column in fields(self)})

    def joined(self, other: Cases) -> Cases:
        """Return these cases followed by the cases of ``other``."""
        return stacked([self, other])


def stacked(parts: Sequence[Cases]) -> Cases:
    """Return the concatenation of several ``Cases``; ``parts`` must not be empty."""
    columns: dict[str, Any] = {
        column.name: np.concatenate([getattr(part, column.name) for part in parts])
        for column in fields(Cases)
    }
    return Cases(**columns)


def graph_columns(features: Floats, batch: Floats) -> Floats:
    """Return the platform-independent features of n cases, [n, len(GRAPH)], from rows of
    ``graph_features`` and the batches."""

    def column(name: str) -> Floats:
        return np.asarray(features[:, _OF[name]])

    def shares(quantity: str, groups: tuple[str, ...]) -> list[Floats]:
        whole = np.maximum(column(quantity), 1.0)
        return [column(f"{quantity}_{group}") / whole for group in groups]

    elements = np.maximum(column("elements"), 1.0)
    return np.column_stack([
        np.log(batch), *(np.log(np.maximum(column(name), 1e-3)) for name in _LOGS),
        *(column(name) for name in _MEANS), *(column(name) / elements for name in _PARTS),
        *shares("macs", GROUPS[:MATRIX_GROUPS]), *shares("elements", GROUPS),
        *shares("nodes", GROUPS),
    ])  # fmt: skip


def place_columns(roofs: Floats, batch: Floats) -> Floats:
    """Return the platform-dependent features of n cases, [n, len(PLACE)], from rows of
    ``roof_features`` and the batches."""
    whole = np.maximum(roofs[:, _ROOF["roof_s"]], 1e-15)
    balance = np.maximum(roofs[:, _ROOF["compute_s"]], 1e-15) / np.maximum(
        roofs[:, _ROOF["memory_s"]], 1e-15
    )
    launching = np.log(roofs[:, _ROOF["launches"]] * _LAUNCH_S / (batch * whole))
    return np.column_stack([
        np.log(balance), launching.clip(*_LAUNCHING), roofs[:, _ROOF["fused_s"]] / whole,
        *(roofs[:, _ROOF[f"{group}_s"]] / whole for group in GROUPS),
    ])  # fmt: skip


def spec_of(roof: Roof, numbers: Numbers) -> Floats:
    """Return the weighted logs of a platform's data-sheet rates in the precision ``numbers``,
    [len(SPEC)]."""
    rates = (roof.dram_bytes, roof.matrix_flops[numbers], roof.vector_flops, roof.l2_capacity)
    return np.asarray(_SPEC_WEIGHT * np.log(np.maximum(rates, 1.0)))


def case_of(work: GraphWork, roof: Roof, numbers: Numbers, batch: int, *, fused: bool) -> Cases:
    """Return the features of one case whose device, stack and model are shared with no other
    case."""
    many = np.array([float(batch)])
    under = roof_features(work, [roof], [numbers], batch)
    return Cases(
        graph_columns(graph_features(work)[None], many), place_columns(under, many),
        spec_of(roof, numbers)[None], np.log(np.maximum(under[:, _ROOF["roof_s"]], 1e-15)),
        np.array([int(roof.is_gpu)]), np.array([int(fused)]),
        *(np.array([NOBODY]) for _ in range(3)),
    )  # fmt: skip
