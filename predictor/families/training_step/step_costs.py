"""The cost model of a training step: each part of its work at a rate learnt per device.

The backward pass of a matrix product is two products of the same size (gradients of the input and
of the weight). All other operators move about twice as much data backward as forward. An optimiser
passes over the parameters once per step, whatever the batch. So

  seconds = sum over j of rate_j x term_j

``term_j``: amounts of the forward pass, see ``TERMS``. ``rate_j``: seconds per unit of term j,
learnt, at least 0.
"""

from __future__ import annotations

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.graph.latency.features import GRAPH_FEATURES, GROUPS, MATRIX_GROUPS

TERMS = ("products", "grouped", "product elements", "other elements", "parameters", "launches")
"""Amounts of work of a step, in this order:

- ``products``: flops of matrix products and dense convolutions, of the whole batch;
- ``grouped``: flops of grouped convolutions, which matrix units do not accelerate, of the batch;
- ``product elements``: activations that products and convolutions read and write, of the batch;
- ``other elements``: activations that all other operators read and write, of the batch;
- ``parameters``: number of parameters;
- ``launches``: number of operators that run.
"""
_GROUPED = ("grouped", "depthwise")
_AT = {name: place for place, name in enumerate(GRAPH_FEATURES)}


def _sum(features: Floats, quantity: str, groups: tuple[str, ...]) -> Floats:
    """Return [rows] a quantity (flops, elements) of a graph summed over groups of operators."""
    total: Floats = features[:, [_AT[f"{quantity}_{group}"] for group in groups]].sum(axis=1)
    return total


def terms(features: Floats, batch: Floats) -> Floats:
    """Return the amounts of ``TERMS`` [rows, terms] from graph features [rows, features] and batch
    sizes [rows]."""
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
"""Input columns of the correction of the cost model; the last are the shares of its time by
term."""


def cost_seconds(table: Floats, rates: Floats) -> Floats:
    """Return [rows] seconds of the cost model for amounts [rows, terms] at rates [rows or 1,
    terms]."""
    seconds: Floats = np.maximum((table * rates).sum(axis=1), 1e-9)
    return seconds


def step_features(features: Floats, batch: Floats, nhwc: Floats, rates: Floats) -> Floats:
    """Return the inputs [rows, len(STEP_FEATURES)] of the model that corrects the cost model.

    ``nhwc``: [rows] 1 where channels are the last (fastest) dimension in memory, else 0.
    """
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
