"""Seconds of a training step: each part of its work at the rate that a device was seen to reach.

A product's backward pass is two products of its size (gradients of the input and of the weight),
and all else moves about twice what it did forward; an optimiser goes through the parameters once a
step, whatever the batch. So ``seconds = sum of rate_j x term_j`` with the terms below, counted of
the forward pass, and rates that are learnt; all are at least 0.
"""

from __future__ import annotations

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.graph.latency.features import GRAPH_FEATURES, GROUPS, MATRIX_GROUPS

TERMS = ("products", "grouped", "product elements", "other elements", "parameters", "launches")
"""Flops of products, of convolutions in groups (which no matrix unit likes), activations that
either moves, activations that all else moves, each of the whole batch; parameters; operators that
run."""
_GROUPED = ("grouped", "depthwise")
_AT = {name: place for place, name in enumerate(GRAPH_FEATURES)}


def _sum(features: Floats, quantity: str, groups: tuple[str, ...]) -> Floats:
    total: Floats = features[:, [_AT[f"{quantity}_{group}"] for group in groups]].sum(axis=1)
    return total


def terms(features: Floats, batch: Floats) -> Floats:
    """Return [rows, len(TERMS)] of ``graph_features`` [rows, ...] at batches [rows]."""
    matrix, rest = GROUPS[:MATRIX_GROUPS], GROUPS[MATRIX_GROUPS:]
    dense = tuple(group for group in matrix if group not in _GROUPED)
    return np.column_stack([
        batch * _sum(features, "flops", dense), batch * _sum(features, "flops", _GROUPED),
        batch * _sum(features, "elements", matrix), batch * _sum(features, "elements", rest),
        features[:, _AT["parameters"]], features[:, _AT["nodes"]],
    ])  # fmt: skip


_KINDS = ("flops", "elements", "nodes")
_TOTALS = ("nodes", "kinds", "depth", "macs", "flops", "elements", "written", "worked",
           "parameters", "widest_written", "input_elements")  # fmt: skip
_SHAPES = ("mean_channels", "mean_positions", "mean_inner", "macs_intensity_below_16",
           "macs_intensity_below_64", "macs_intensity_below_256", "macs_few_channels",
           "macs_strided")  # fmt: skip
_PARTS = ("elements_narrow_matmul", "elements_gelu", "elements_sigmoid", "elements_relu",
          "elements_layer_norm", "elements_batch_norm")  # fmt: skip
STEP_FEATURES = (
    *(f"share {quantity}_{group}" for quantity in _KINDS for group in GROUPS),
    *(f"log {name}" for name in _TOTALS), *_SHAPES, *(f"share {name}" for name in _PARTS),
    "log batch", "channels last", *(f"time in {term}" for term in TERMS),
)  # fmt: skip
"""Columns that the residual over the cost model sees; the last are its own parts of the time."""


def cost_seconds(table: Floats, rates: Floats) -> Floats:
    """Return [rows] of ``terms`` [rows, len(TERMS)] at rates [rows or 1, len(TERMS)]."""
    seconds: Floats = np.maximum((table * rates).sum(axis=1), 1e-9)
    return seconds


def step_features(features: Floats, batch: Floats, nhwc: Floats, rates: Floats) -> Floats:
    """Return [rows, len(STEP_FEATURES)]; ``nhwc`` [rows] 1 where channels stand last in memory."""
    table = terms(features, batch)
    parts = table * rates / cost_seconds(table, rates)[:, None]
    shares = []
    for quantity in _KINDS:
        own = features[:, [_AT[f"{quantity}_{group}"] for group in GROUPS]]
        shares.append(own / np.maximum(own.sum(axis=1, keepdims=True), 1))
    elements = np.maximum(features[:, [_AT["elements"]]], 1)
    return np.column_stack([
        *shares, np.log1p(features[:, [_AT[name] for name in _TOTALS]]),
        features[:, [_AT[name] for name in _SHAPES]],
        features[:, [_AT[name] for name in _PARTS]] / elements,
        np.log(batch), nhwc, parts,
    ])  # fmt: skip
